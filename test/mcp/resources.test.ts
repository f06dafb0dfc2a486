import { describe, expect, test } from "vitest";
import { fileUri, parseFileUri } from "../../src/tools/uri.ts";
import { until } from "../support/until.ts";
import { clientKinds, connect, createWorld, startHttp, startStdio, textOf, wires } from "./support.ts";

const combinations = clientKinds.flatMap((kind) => wires.map((wire) => ({ kind, wire })));

describe.each(combinations)("$kind over $wire", ({ kind, wire }) => {
  async function start() {
    const world = createWorld();
    const client = await connect(kind, wire === "http" ? await startHttp(world) : startStdio(world));
    return { ...world, client };
  }

  test("files of open sessions are listed and read, as text or bytes", async () => {
    const { client, sessions } = await start();
    const session = await sessions.create("local");
    await session.workspace.write("data/añ o.csv", Buffer.from("a,b\n1,2\n"));
    await session.workspace.write("plot.png", Buffer.from([0x89, 0x50, 0xff, 0x00]));
    await session.workspace.write("broken.txt", Buffer.from([0xff, 0xfe, 0x41]));
    const listed = await client.resources();
    expect(listed.map((file) => file.name).sort()).toEqual(["broken.txt", "data/añ o.csv", "plot.png"]);
    const csv = listed.find((file) => file.name.endsWith("csv"));
    expect(csv).toMatchObject({ uri: `cell://${session.id}/data/a%C3%B1%20o.csv`, mimeType: "text/csv", size: 8 });
    expect(await client.read(csv?.uri ?? "")).toMatchObject({
      uri: csv?.uri,
      mimeType: "text/csv",
      text: "a,b\n1,2\n",
    });
    expect(await client.read(fileUri(session.id, "plot.png"))).toMatchObject({
      mimeType: "image/png",
      blob: "iVD/AA==",
    });
    expect(await client.read(fileUri(session.id, "broken.txt"))).toMatchObject({ blob: "//5B" });
    expect(await client.templates()).toEqual(["cell://{session_id}/{+path}"]);
  });

  test("what a cell showed is read from the store", async () => {
    const { client, sessions, store } = await start();
    const session = await sessions.create("local");
    const uri = await store.putBlob(session.id, Buffer.from("<b>hi</b>"), "text/html");
    expect(await client.read(uri)).toMatchObject({ uri, text: "<b>hi</b>" });
  });

  test("a missing, foreign or non-regular file is refused as wrong parameters", async () => {
    const { client, sessions, store } = await start();
    const session = await sessions.create("local");
    const foreign = await sessions.create("somebody");
    await foreign.workspace.write("a.txt", Buffer.from("secret"));
    const foreignBlob = await store.putBlob(foreign.id, Buffer.from("secret"), "text/plain");
    const uris = [
      fileUri(session.id, "missing.txt"),
      `cell://${session.id}/../x`,
      `cell://${session.id}/%2e%2e/%2e%2e/etc/passwd`,
      `cell://${session.id}/a%00b`,
      `cell://${session.id}/.outputs/missing.png`,
      `cell://${session.id}/.outputs/..%2f..%2fx`,
      "cell://nobody/a.txt",
      fileUri(foreign.id, "a.txt"),
      foreignBlob,
      "file:///etc/passwd",
      "cell://",
      "%",
    ];
    for (const uri of uris) {
      const error = await client.read(uri).then(
        (read) => ({ code: "was read", message: JSON.stringify(read) }),
        (thrown) => thrown,
      );
      expect(error, uri).toMatchObject({ code: -32602 });
      expect(error.message).not.toContain("secret");
    }
    const message = (uri: string) => client.read(uri).catch((error) => String(error.message));
    const unknown = await message("cell://nobody-nobody-no/a.txt");
    expect(await message(fileUri(foreign.id, "a.txt"))).toBe(
      String(unknown).replaceAll("nobody-nobody-no", foreign.id),
    );
  });

  test("subscribers are notified of changes by a tool and by a cell, of their own sessions only", async () => {
    const { client, sessions } = await start();
    const id = textOf(await client.call("write", { path: "a.txt", text: "1" }));
    const notices = await client.watch(fileUri(id, "a.txt"));
    const foreign = await sessions.create("somebody");
    foreign.filesChanged(["a.txt"]);
    await client.call("write", { session_id: id, path: "other.txt", text: "1" });
    await client.call("write", { session_id: id, path: "a.txt", text: "2" });
    await until(() => notices.includes(fileUri(id, "a.txt")) && notices.includes("list"));
    expect(new Set(notices)).toEqual(new Set([fileUri(id, "a.txt"), "list"]));
    notices.length = 0;

    const session = await sessions.get("local", id);
    const run = session.execute("sleep 60000");
    await until(() => run.phase === "running");
    await session.workspace.write("a.txt", Buffer.from("by the cell"));
    await session.interrupt();
    await until(() => notices.includes(fileUri(id, "a.txt")) && notices.includes("list"));
  });
});

test("a list is bounded, with the sessions used last first", async () => {
  const world = createWorld();
  const client = await connect("v1", startStdio(world));
  const old = await world.sessions.create("local");
  for (let file = 0; file < 150; file += 1) await old.workspace.write(`old-${file}.txt`, Buffer.from("x"));
  await until(() => old.record.lastUsedAt < new Date().toISOString());
  const young = await world.sessions.create("local");
  for (let file = 0; file < 150; file += 1) await young.workspace.write(`young-${file}.txt`, Buffer.from("x"));
  const names = (await client.resources()).map((file) => file.name);
  expect(names).toHaveLength(200);
  expect(names.filter((name) => name.startsWith("young"))).toHaveLength(150);
});

test("too large a file is refused with its limit", async () => {
  const world = createWorld();
  const client = await connect("v1", startStdio(world));
  const session = await world.sessions.create("local");
  await session.workspace.write("big.bin", Buffer.alloc(7_000_001));
  await expect(client.read(fileUri(session.id, "big.bin"))).rejects.toMatchObject({
    code: -32602,
    message: expect.stringContaining("7"),
  });
});

test("a URI is made and read the same way", () => {
  for (const path of ["a.txt", "d/e f.txt", "100%.txt", "ü/#?.csv", "a%2fb"]) {
    expect(parseFileUri(fileUri("id-_1", path))).toEqual({ sessionId: "id-_1", path });
  }
  for (const uri of ["cell://a", "cell:///b", "cell://a/b?c", "cell://a/%zz", "http://a/b"]) {
    expect(parseFileUri(uri)).toBeUndefined();
  }
});
