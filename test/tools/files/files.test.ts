import { describe, expect, test } from "vitest";
import { createWorld } from "../support.ts";

async function startSession(options = {}) {
  const world = createWorld({ options });
  const session = await world.sessions.create("local");
  const call = (name: string, args: Record<string, unknown> = {}) =>
    world.call(name, { session_id: session.id, ...args });
  const write = (path: string, content: string | Uint8Array) => session.workspace.write(path, Buffer.from(content));
  const read = async (path: string) =>
    Buffer.from((await session.workspace.read(path, { maxBytes: 1e9 })).bytes).toString();
  return { ...world, session, call, write, read };
}

describe("list_files", () => {
  test("shows files and folders", async () => {
    const { call, write } = await startSession();
    expect((await call("list_files")).text).toBe("No files.");
    await write("data/in.csv", "a,b\n");
    await write("b.txt", "x".repeat(1500));
    const flat = (await call("list_files")).text.replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, "DATE");
    expect(flat.split("\n")).toEqual(["path   size    modified (UTC)", "b.txt  1.5 kB  DATE", "data/          DATE"]);
    expect((await call("list_files", { recursive: true })).text).toContain("data/in.csv  4 B");
    expect((await call("list_files", { path: "data" })).text).toContain("data/in.csv");
    expect(await call("list_files", { path: "nope" })).toMatchObject({ code: "file_not_found" });
    expect(await call("list_files", { path: "../../.." })).toMatchObject({ code: "path_outside_session" });
  });
});

describe("read_file", () => {
  test("shows a small file whole", async () => {
    const { call, write } = await startSession();
    await write("a.txt", "one\ntwo\n");
    expect((await call("read_file", { path: "a.txt" })).text).toBe("one\ntwo\n[a.txt · 8 B · 2 lines]");
    await write("empty.txt", "");
    expect((await call("read_file", { path: "empty.txt" })).text).toBe("[empty.txt · 0 B · empty]");
  });

  test("pages by line within the budget and says how to go on", async () => {
    const { call, write } = await startSession({ maxResultChars: 2_000 });
    const lines = Array.from({ length: 1_000 }, (_, index) => `line ${index + 1}`);
    await write("long.txt", lines.join("\n"));
    const seen: string[] = [];
    for (let offset_line: number | undefined = 1; offset_line; ) {
      const { text } = await call("read_file", { path: "long.txt", offset_line });
      expect(text.length).toBeLessThanOrEqual(2_000);
      seen.push(...text.split("\n").slice(0, -1));
      offset_line = Number(/next page: offset_line (\d+)\]$/.exec(text)?.[1]) || undefined;
    }
    expect(seen).toEqual(lines);
    const some = await call("read_file", { path: "long.txt", offset_line: 10, limit_lines: 2 });
    expect(some.text).toBe(
      "line 10\nline 11\n[long.txt · 8.9 kB · lines 10–11 of 1\u202f000 · next page: offset_line 12]",
    );
    expect((await call("read_file", { path: "long.txt", offset_line: 5_000 })).text).toContain(
      "it has only 1\u202f000 lines",
    );
  });

  test("a line longer than the budget shows both its ends", async () => {
    const { call, write } = await startSession({ maxResultChars: 2_000 });
    await write("wide.txt", `begin${"x".repeat(100_000)}end\nnext\n`);
    const { text } = await call("read_file", { path: "wide.txt" });
    expect(text).toMatch(
      /^beginx+\n\[… [\d\u202f]+ characters left out …\]\nx+end\n\[wide.txt · 100 kB · lines 1–1 of 2 · next/,
    );
    expect(text.length).toBeLessThanOrEqual(2_000);
  });

  test("images are images, other binary is a blob, text in odd encodings is text", async () => {
    const { call, write } = await startSession();
    const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    await write("dot.png", Buffer.from(png, "base64"));
    const image = await call("read_file", { path: "dot.png" });
    expect(image.content).toEqual([
      { type: "image", mimeType: "image/png", data: png },
      { type: "text", text: "[dot.png · image/png · 70 B]" },
    ]);
    await write("a b.bin", Uint8Array.of(0, 1, 2, 255));
    const blob = await call("read_file", { path: "a b.bin" });
    expect(blob.content[0]).toMatchObject({
      type: "resource",
      resource: { uri: expect.stringMatching(/\/a%20b\.bin$/), blob: "AAEC/w==", mimeType: "application/octet-stream" },
    });
    await write("old.csv", Buffer.from("größe;1\n", "latin1"));
    expect((await call("read_file", { path: "old.csv" })).text).toContain("größe;1");
    await write("wide.txt", Buffer.from("\ufeffgröße", "utf16le"));
    expect((await call("read_file", { path: "wide.txt" })).text).toContain("größe");
    await write("noending", "plain");
    expect((await call("read_file", { path: "noending" })).text).toContain("plain");
    await write("broken.png", "no picture");
    const broken = await call("read_file", { path: "broken.png" });
    expect(broken.content.map(({ type }) => type)).toEqual(["resource_link", "text"]);
    expect(broken.text).toContain("a damaged image/png");
  });

  test("kept outputs are read by the path or the URI that replies name, and cannot be changed", async () => {
    const { call, store, session } = await startSession();
    const uri = await store.putBlob(session.id, Buffer.from("all of it\n"), "text/plain");
    const path = uri.slice(uri.indexOf(".outputs"));
    expect((await call("read_file", { path })).text).toMatch(/^all of it\n/);
    expect((await call("read_file", { path: uri })).text).toMatch(/^all of it\n/);
    expect(await call("read_file", { path: `cell://other/${path}` })).toMatchObject({ code: "path_outside_session" });
    expect(await call("read_file", { path: ".outputs/nope.txt" })).toMatchObject({ code: "file_not_found" });
    for (const name of [path, `./${path}`, ".outputs", uri]) {
      expect(await call("write_file", { path: name, content: "" })).toMatchObject({ code: "path_outside_session" });
      expect(await call("delete_file", { path: name })).toMatchObject({ code: "path_outside_session" });
    }
  });

  test("a missing file names its neighbours", async () => {
    const { call, write } = await startSession();
    await write("results.csv", "");
    const reply = await call("read_file", { path: "result.csv" });
    expect(reply.code).toBe("file_not_found");
    expect(reply.text).toContain("`results.csv`");
  });
});

describe("write_file and delete_file", () => {
  test("write creates and replaces, with folders, and says where", async () => {
    const { call, read, session } = await startSession();
    const created = await call("write_file", { path: "a/b.txt", content: "größe" });
    expect(created.text).toContain(
      `Created a/b.txt (7 B). On this machine: ${session.workspace.hostPath?.("a/b.txt")}`,
    );
    expect((await call("write_file", { path: "a/b.txt", content: "AQI=", encoding: "base64" })).text).toContain(
      "Replaced a/b.txt (2 B)",
    );
    expect(await read("a/b.txt")).toBe("\u0001\u0002");
    expect(await call("write_file", { path: "x", content: "a!", encoding: "base64" })).toMatchObject({
      code: "invalid_input",
    });
    expect(await call("write_file", { path: "/etc/x", content: "" })).toMatchObject({ code: "path_outside_session" });
  });

  test("write keeps to --disk-mb", async () => {
    const { call } = await startSession({ diskMb: 1 });
    expect(await call("write_file", { path: "a", content: "x".repeat(800_000) })).not.toHaveProperty("isError");
    expect(await call("write_file", { path: "b", content: "x".repeat(800_000) })).toMatchObject({ code: "too_large" });
  });

  test("delete removes files and folders", async () => {
    const { call, write, session } = await startSession();
    await write("a/b.txt", "");
    expect((await call("delete_file", { path: "a" })).text).toBe("Deleted a.");
    expect(await session.workspace.list(".")).toEqual({ entries: [], more: false });
    expect(await call("delete_file", { path: "a" })).toMatchObject({ code: "file_not_found" });
  });

  test("watchers hear of files that tools change", async () => {
    const { call, sessions } = await startSession();
    const heard: string[] = [];
    const stop = sessions.watchFiles((_, paths) => heard.push(...paths));
    await call("write_file", { path: "w", content: "one" });
    await call("edit_file", { path: "w", old_text: "one", new_text: "two" });
    await call("delete_file", { path: "w" });
    stop();
    expect(heard).toEqual(["w", "w", "w"]);
  });
});

describe("edit_file", () => {
  test("replaces what is there once, byte for byte around it", async () => {
    const { call, write, read } = await startSession();
    await write("a.py", "\ufeffx = 1\r\ny = '$&'\r\n");
    const edited = await call("edit_file", { path: "a.py", old_text: "x = 1\ny", new_text: "x = '$1'\nz" });
    expect(edited.text).toContain("Replaced 1 occurrence in a.py");
    expect(await read("a.py")).toBe("\ufeffx = '$1'\r\nz = '$&'\r\n");
  });

  test("refuses what is there several times, and says where", async () => {
    const { call, write, read } = await startSession();
    await write("a.txt", "same\nother\nsame same\n");
    const refused = await call("edit_file", { path: "a.txt", old_text: "same", new_text: "new" });
    expect(refused.code).toBe("edit_failed");
    expect(refused.text).toContain("old_text occurs 3 times, at lines 1, 3, 3.");
    await call("edit_file", { path: "a.txt", old_text: "same", new_text: "new", replace_all: true });
    expect(await read("a.txt")).toBe("new\nother\nnew new\n");
  });

  test("suggests similar names for a missing file", async () => {
    const { call, write } = await startSession();
    await write("a.py", "def f():\n    return  1\n");
    const missed = await call("edit_file", { path: "a.py", old_text: "\treturn 1\n", new_text: "return 2\n" });
    expect(missed.code).toBe("edit_failed");
    expect(missed.text).toContain(
      "old_text was not found in the file. Its first line resembles line 2: `    return  1`.",
    );
    const unlike = await call("edit_file", { path: "a.py", old_text: "zzz", new_text: "" });
    expect(unlike.text).toContain("No line resembles its first line.");
  });

  test("refuses what it cannot edit", async () => {
    const { call, write } = await startSession();
    await write("bin", Uint8Array.of(255, 254, 0));
    expect(await call("edit_file", { path: "bin", old_text: "a", new_text: "b" })).toMatchObject({
      code: "edit_failed",
    });
    await write("a", "x");
    expect(await call("edit_file", { path: "a", old_text: "x", new_text: "x" })).toMatchObject({ code: "edit_failed" });
    expect(await call("edit_file", { path: "none", old_text: "x", new_text: "y" })).toMatchObject({
      code: "file_not_found",
    });
  });
});
