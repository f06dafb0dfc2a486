import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createLog, type Log } from "../../src/log.ts";
import { openDiskStore } from "../../src/store/disk.ts";
import type { Store } from "../../src/store/store.ts";
import { execution, record, testStore } from "../contracts/store.ts";
import { describeWith } from "../support/requirements.ts";

let dataDir: string;
let opened: Store[];
let logged: string[];

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "cellwright-disk-"));
  opened = [];
  logged = [];
});
afterEach(async () => {
  for (const store of opened) await store.dispose();
  rmSync(dataDir, { recursive: true, force: true });
});

async function open(dir = dataDir, maxSessionMb?: number): Promise<Store> {
  const log: Log = createLog("warn", (line) => logged.push(line));
  const store = await openDiskStore({ dataDir: dir, maxSessionMb, log });
  opened.push(store);
  return store;
}

const sessionFile = (...names: string[]) => join(dataDir, "sessions", "s1", ...names);
const journalText = () => readFileSync(sessionFile("journal.ndjson"), "utf8");

testStore({ name: "the disk store", open: () => open() });

describe("history and outputs of a session take no more room than they may", () => {
  const MB = 1024 * 1024;
  const shows = (id: string, bytes = MB) =>
    execution(id, { outputs: [{ type: "display", data: { "text/html": id.padEnd(bytes, "x") } }] });
  const kept = () =>
    readdirSync(sessionFile("outputs")).map((name) => readFileSync(sessionFile("outputs", name), "utf8").slice(0, 2));
  const REMOVED =
    "Older outputs of this session were removed (1): the limit for a session's outputs is 4 MB (--disk-mb).";

  test("so that the oldest outputs give way, and the reply says so", async () => {
    const store = await open(dataDir, 4);
    await store.begin("s1", execution("a1", { status: "running" }));
    for (const id of ["a1", "a2", "a3"]) expect(await store.finish("s1", shows(id))).toEqual([]);
    // Used again, so it is no longer the oldest.
    expect(await store.finish("s1", shows("a1"))).toEqual([]);
    expect(await store.finish("s1", shows("a4"))).toEqual([REMOVED]);
    expect(await store.finish("s1", execution("a5"))).toEqual([]);
    expect(kept().sort()).toEqual(["a1", "a3", "a4"]);
    const notices = (await store.history("s1")).map(({ id, notices }) => [id, notices.length]);
    expect(Object.fromEntries(notices)).toEqual({ a1: 0, a2: 1, a3: 0, a4: 0, a5: 0 });
  });

  test("with what an earlier run of the program left", async () => {
    const first = await open(dataDir, 4);
    await first.begin("s1", execution("a1", { status: "running" }));
    for (const id of ["a1", "a2", "a3"]) await first.finish("s1", shows(id));
    await first.dispose();
    const second = await open(dataDir, 4);
    await second.putBlob("s1", Buffer.from("a4".padEnd(MB, "x")), "text/html");
    expect(await second.finish("s1", execution("a5"))).toEqual([REMOVED]);
    expect(kept().sort()).toEqual(["a2", "a3", "a4"]);
  });

  test("and what does not fit at all is not kept", async () => {
    const store = await open(dataDir, 4);
    await store.begin("s1", execution("a1", { status: "running" }));
    await store.finish("s1", shows("a1"));
    const [notice] = await store.finish("s1", shows("a2", 5 * MB));
    expect(notice).toBe(
      "Outputs of this cell were not kept (1): the limit for a session's outputs is 4 MB (--disk-mb).",
    );
    expect(kept()).toEqual(["a1"]);
    expect((await store.history("s1"))[1]?.outputs).toEqual([
      { type: "display", data: { "text/html": "(not kept: it is too large)" } },
    ]);
    const tooLarge = store.putBlob("s1", Buffer.alloc(5 * MB), "image/png");
    await expect(tooLarge).rejects.toMatchObject({ code: "storage_full" });
  });

  test("nor does the full text of a cell that prints without end", async () => {
    const store = await open(dataDir, 4);
    await store.begin("s1", execution("a1", { status: "running" }));
    for (const id of ["a1", "a2", "a3"]) await store.finish("s1", shows(id));
    const spill = store.openSpill("s1", "b1.txt", 64 * MB);
    for (let count = 0; count < 30; count += 1) spill.write("b".repeat(100_000));
    await spill.close();
    expect(await store.finish("s1", execution("b1"))).toEqual([REMOVED]);
    expect(kept().sort()).toEqual(["a2", "a3", "bb"]);
    expect(statSync(sessionFile("outputs", "b1.txt")).size).toBe(MB);
  });

  test("and when the history alone takes it, no more cells are begun", async () => {
    const store = await open(dataDir, 1);
    const lines = Array.from({ length: 80 }, () => ({
      type: "stream" as const,
      name: "stdout" as const,
      text: "x".repeat(16_000),
    }));
    await store.begin("s1", execution("a1", { status: "running" }));
    await store.finish("s1", execution("a1", { outputs: lines }));
    await expect(store.begin("s1", execution("a2", { status: "running" }))).rejects.toMatchObject({
      code: "storage_full",
      message: "The history of session `s1` has reached the limit of --disk-mb.",
    });
    expect(await store.cells("s1")).toHaveLength(1);
  });
});

test("reading the cells of a history does not read what they showed", async () => {
  const store = await open();
  await store.begin("s1", execution("a", { status: "running" }));
  const data = { "text/html": "x".repeat(100_000) };
  await store.finish("s1", execution("a", { outputs: [{ type: "display", data }] }));
  for (const name of readdirSync(sessionFile("outputs"))) rmSync(sessionFile("outputs", name));
  // Nothing of it is missing.
  expect((await store.cells("s1"))[0]?.notices).toEqual([]);
  expect((await store.execution("s1", "a"))?.notices).toHaveLength(1);
});

describe("after a restart the disk store", () => {
  test("has sessions, history, outputs and files as before", async () => {
    const image = Buffer.alloc(50_000, 3).toString("base64");
    const shown = execution("a", { outputs: [{ type: "display", data: { "image/png": image } }] });
    const first = await open();
    await first.claim("s1");
    await first.saveSession(record("s1", { name: "Sales" }));
    await first.begin("s1", execution("a", { status: "running" }));
    await first.finish("s1", shown);
    const uri = await first.putBlob("s1", Buffer.from("<p>"), "text/html");
    writeFileSync(join(await first.folder("s1"), "kept.txt"), "kept");
    await first.dispose();

    const second = await open();
    expect(await second.sessions()).toEqual([record("s1", { name: "Sales" })]);
    expect(await second.history("s1")).toEqual([shown]);
    expect(Buffer.from((await second.getBlob(uri))?.bytes ?? []).toString()).toBe("<p>");
    expect(readFileSync(join(await second.folder("s1"), "kept.txt"), "utf8")).toBe("kept");
    expect(await second.claim("s1")).toBe(true);
  });

  test("writes on where the journal ended", async () => {
    const first = await open();
    await first.begin("s1", execution("a"));
    await first.dispose();
    const second = await open();
    await second.begin("s1", execution("b"));
    await second.finish("s1", execution("b"));
    expect((await second.history("s1")).map(({ id, status }) => [id, status])).toEqual([
      ["a", "kernel_died"],
      ["b", "ok"],
    ]);
    expect(journalText().match(/"format"/g)).toHaveLength(1);
  });

  test("still reads a text that was being written, and lets it grow only to its limit", async () => {
    const first = await open();
    const spill = first.openSpill("s1", "e1.txt", 10);
    spill.write("12345678");
    await first.dispose();
    const second = await open();
    const again = second.openSpill("s1", "e1.txt", 10);
    again.write("90abc");
    await again.close();
    expect(Buffer.from((await second.getBlob(spill.uri))?.bytes ?? []).toString()).toBe("1234567890");
  });
});

describe("a journal", () => {
  test("has short lines, whatever a cell shows, and images as real files", async () => {
    const store = await open();
    const image = Buffer.alloc(300_000, 3);
    const data = { "image/png": image.toString("base64") };
    await store.begin("s1", execution("a", { code: "#".repeat(100_000) }));
    await store.finish("s1", execution("a", { outputs: [{ type: "display", data }] }));
    for (const line of journalText().split("\n")) expect(line.length).toBeLessThan(1_000);
    const [png] = readdirSync(sessionFile("outputs")).filter((name) => name.endsWith(".png"));
    expect(readFileSync(sessionFile("outputs", String(png))).equals(image)).toBe(true);
  });

  // A process can die after any byte of a write: within the first line, a begin, a finish or a second begin.
  test("cut off anywhere is read up to there and written on, never glued to a torn line", async () => {
    const store = await open();
    await store.begin("s1", execution("a", { status: "running" }));
    await store.finish("s1", execution("a"));
    await store.begin("s1", execution("b", { status: "running" }));
    await store.dispose();
    const whole = readFileSync(sessionFile("journal.ndjson"));
    const ends = [...whole.entries()].filter(([, byte]) => byte === 10).map(([index]) => index);
    for (let cut = 0; cut <= whole.length; cut += 1) {
      // Every byte near the end of a line, where it matters, and some in between.
      if (cut % 7 !== 0 && !ends.some((end) => Math.abs(end - cut) < 3)) continue;
      writeFileSync(sessionFile("journal.ndjson"), whole);
      truncateSync(sessionFile("journal.ndjson"), cut);
      const [, beginA = 0, finishA = 0, beginB = 0] = ends;
      const expected = [
        ...(cut >= finishA ? [["a", "ok"]] : cut >= beginA ? [["a", "kernel_died"]] : []),
        ...(cut >= beginB ? [["b", "kernel_died"]] : []),
      ];
      const next = await openDiskStore({ dataDir, log: createLog("silent") });
      const seen = async () => (await next.history("s1")).map(({ id, status }) => [id, status]);
      expect(await seen(), `cut at ${cut}`).toEqual(expected);
      await next.begin("s1", execution("c"));
      await next.finish("s1", execution("c"));
      expect(await seen(), `cut at ${cut}, then written`).toEqual([...expected, ["c", "ok"]]);
      await next.dispose();
    }
  });

  test("with junk in it is read without the junk", async () => {
    const store = await open();
    await store.begin("s1", execution("a"));
    await store.finish("s1", execution("a"));
    appendFileSync(
      sessionFile("journal.ndjson"),
      'null\n[]\n"x"\n{"type":"finish"}\n\n{"type":"begin","execution":{"id":7}}\n',
    );
    expect(await store.history("s1")).toEqual([execution("a")]);
  });

  test("whose image was removed is read without the image, and says so", async () => {
    const store = await open();
    const data = { "image/png": Buffer.alloc(50_000, 3).toString("base64") };
    await store.finish("s1", execution("a", {})).catch(() => {});
    await store.begin("s1", execution("a"));
    await store.finish("s1", execution("a", { outputs: [{ type: "display", data }] }));
    rmSync(sessionFile("outputs"), { recursive: true });
    const [kept] = await store.history("s1");
    expect(kept?.notices).toEqual(["A large part of this cell's record was removed."]);
  });

  test("keeps a cell whose output is nested deeper than the stack", async () => {
    const store = await open();
    let deep: unknown = 1;
    for (let depth = 0; depth < 200_000; depth += 1) deep = [deep];
    await store.begin("s1", execution("a"));
    await store.finish("s1", execution("a", { outputs: [{ type: "result", data: { "application/json": deep } }] }));
    const [kept] = await store.history("s1");
    expect(kept?.outputs).toEqual([{ type: "result", data: { "application/json": "(not kept: nested too deeply)" } }]);
  });
});

describe("two stores on one folder", () => {
  test("never have the same session", async () => {
    const one = await open();
    const other = await open();
    await one.saveSession(record("s1"));
    expect(await one.claim("s1")).toBe(true);
    expect(await other.claim("s1")).toBe(false);
    expect(await other.claimedBy("s1")).toBe(`process ${process.pid} on this machine`);
    expect(await one.claimedBy("s1")).toBeUndefined();
    await expect(other.forget("s1")).rejects.toMatchObject({ code: "session_in_use" });
    expect(await other.sessions()).toEqual([record("s1")]);

    await one.release("s1");
    expect(await other.claimedBy("s1")).toBeUndefined();
    expect(await other.claim("s1")).toBe(true);
    expect(await one.claim("s1")).toBe(false);
    await other.dispose();
    expect(await one.claim("s1")).toBe(true);
  });

  test("see each other's running cell as running, and as lost when its store is gone", async () => {
    const one = await open();
    const other = await open();
    await one.claim("s1");
    await one.begin("s1", execution("a", { status: "running" }));
    expect(await other.history("s1")).toMatchObject([{ id: "a", status: "running" }]);
    await one.dispose();
    expect(await other.history("s1")).toMatchObject([{ id: "a", status: "kernel_died" }]);
  });
});

describe("a session of a newer version", () => {
  test("is left out of the list and refused with the reason, untouched", async () => {
    mkdirSync(sessionFile(), { recursive: true });
    writeFileSync(sessionFile("session.json"), JSON.stringify({ format: 2, id: "s1", shape: "unknown" }));
    const store = await open();
    await store.saveSession(record("s2"));
    expect(await store.sessions()).toEqual([record("s2")]);
    expect(await store.sessions()).toEqual([record("s2")]);
    expect(logged.join("")).toContain("written by a newer Cellwright");
    expect(logged).toHaveLength(1);
    const attempts = [
      () => store.claim("s1"),
      () => store.saveSession(record("s1")),
      () => store.begin("s1", execution("a")),
      () => store.putBlob("s1", Buffer.from("x"), "text/plain"),
      () => store.folder("s1"),
      () => store.forget("s1"),
    ];
    for (const attempt of attempts) await expect(attempt()).rejects.toMatchObject({ code: "not_supported" });
    expect(readdirSync(sessionFile())).toEqual(["session.json"]);
  });

  test("is refused by its journal as well", async () => {
    const store = await open();
    await store.folder("s1");
    writeFileSync(sessionFile("journal.ndjson"), '{"cellwright":"journal","format":2}\n{"type":"something new"}\n');
    const before = journalText();
    await expect(store.history("s1")).rejects.toMatchObject({ code: "not_supported" });
    await expect(store.begin("s1", execution("a"))).rejects.toMatchObject({ code: "not_supported" });
    expect(journalText()).toBe(before);
  });
});

describe("a hostile address", () => {
  const flag = "flag-that-must-not-come-out";

  test.each([
    "cell://s1/.outputs/../session.json",
    "cell://s1/.outputs/../../../flag.txt",
    "cell://s1/.outputs/..",
    "cell://s1/.outputs/.",
    "cell://s1/.outputs/",
    "cell://s1/.outputs/..%2fsession.json",
    "cell://s1/.outputs/%2e%2e/session.json",
    "cell://s1/.outputs//etc/passwd",
    "cell://s1/.outputs/a\\..\\session.json",
    "cell://s1/.outputs/session.json\0.png",
    "cell://s1/.outputs/x\n.png",
    "cell://../.outputs/flag.txt",
    "cell://..%2f/.outputs/flag.txt",
    "cell://s1/../s1/.outputs/a.txt",
    "cell://s1/.outputs/.hidden",
    "cell:///.outputs/a.txt",
    "file:///etc/passwd",
    `cell://s1/.outputs/${"x".repeat(300)}`,
    `cell://${"s".repeat(100)}/.outputs/a.txt`,
    "cell://s1/.outputs/link.txt",
  ])("%j leads nowhere", async (uri) => {
    const store = await open();
    await store.saveSession(record("s1"));
    writeFileSync(join(dataDir, "flag.txt"), flag);
    writeFileSync(sessionFile("outputs", ".hidden"), flag);
    writeFileSync(sessionFile("outputs", "a.txt"), "control");
    symlinkSync(join(dataDir, "flag.txt"), sessionFile("outputs", "link.txt"));
    const blob = await store.getBlob(uri).catch(() => undefined);
    expect(blob).toBeUndefined();
    // The control: a well-formed address is served, so the request did reach the reading code.
    expect((await store.getBlob("cell://s1/.outputs/a.txt"))?.mimeType).toBe("text/plain");
  });

  test.each(["../s1", "..", ".", "", "a/b", "a\0", "a\n", "x".repeat(129)])("session id %j is refused", async (id) => {
    const store = await open();
    await expect(store.folder(id)).rejects.toMatchObject({ code: "session_not_found" });
    await expect(store.claim(id)).rejects.toMatchObject({ code: "session_not_found" });
    await expect(store.saveSession(record(id))).rejects.toMatchObject({ code: "session_not_found" });
    expect(() => store.openSpill("s1", id, 10)).toThrow();
    expect(readdirSync(join(dataDir, "sessions"))).toEqual([]);
  });
});

test.skipIf(process.platform === "win32")("all folders are 0700 and all files 0600, whatever the umask", async () => {
  const before = process.umask(0);
  try {
    const store = await open();
    await store.claim("s1");
    await store.saveSession(record("s1"));
    await store.begin("s1", execution("a", { code: "#".repeat(50_000) }));
    const spill = store.openSpill("s1", "e1.txt", 100);
    spill.write("x");
    await spill.close();
  } finally {
    process.umask(before);
  }
  const wrong = readdirSync(dataDir, { recursive: true, withFileTypes: true }).filter((entry) => {
    const mode = statSync(join(entry.parentPath, entry.name)).mode & 0o777;
    return mode !== (entry.isDirectory() ? 0o700 : 0o600);
  });
  expect(wrong.map((entry) => entry.name)).toEqual([]);
});

test.skipIf(process.platform !== "linux")("no file stays open when sessions are released or forgotten", async () => {
  const openFiles = () => readdirSync("/proc/self/fd").length;
  const store = await open();
  const before = openFiles();
  for (let count = 0; count < 20; count += 1) {
    const id = `s${count}`;
    await store.claim(id);
    await store.begin(id, execution("a"));
    await store.finish(id, execution("a"));
    store.openSpill(id, "e1.txt", 100_000).write("x".repeat(70_000));
  }
  expect(openFiles()).toBeGreaterThan(before + 30);
  for (let count = 0; count < 10; count += 1) await store.forget(`s${count}`);
  await store.dispose();
  // The folder is released a moment later.
  await expect.poll(openFiles).toBe(before);
});

test("what a program was still removing when it ended is removed by the next one", async () => {
  const left = join(dataDir, "trash", "left", "workspace", "deep");
  mkdirSync(left, { recursive: true });
  writeFileSync(join(left, "file"), "x");
  const store = await open();
  await expect.poll(() => readdirSync(join(dataDir, "trash"))).toEqual([]);
  await store.dispose();
});

test("a session with folders nested deeper than a path can say is forgotten", async () => {
  const store = await open();
  const folder = await store.folder("s1");
  execFileSync(process.execPath, [
    "-e",
    'const fs = require("node:fs"); process.chdir(process.argv[1]);' +
      'for (let i = 0; i < 2000; i++) { fs.mkdirSync("dd"); process.chdir("dd"); fs.writeFileSync("file", ""); }',
    folder,
  ]);
  chmodSync(join(folder, "dd"), 0o500);
  await store.forget("s1");
  expect(existsSync(folder)).toBe(false);
  expect(readdirSync(join(dataDir, "trash"))).toEqual([]);
});

describeWith("mounts", "a full disk", () => {
  test("refuses new cells, crashes nothing, and is forgotten when there is room again", async () => {
    const small = join(dataDir, "small");
    mkdirSync(small);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=512k", "tmpfs", small]);
    try {
      const store = await open(small);
      await store.claim("s1");
      await store.saveSession(record("s1"));
      await store.begin("s1", execution("a", { status: "running" }));
      fill(join(small, "ballast"));

      const full = { code: "storage_full" };
      const long = "#".repeat(10_000);
      await expect(store.finish("s1", execution("a", { code: long }))).rejects.toMatchObject(full);
      await expect(store.begin("s1", execution("b", { code: long }))).rejects.toMatchObject(full);
      await expect(store.begin("s1", execution("b", { code: long.repeat(3) }))).rejects.toMatchObject(full);
      await expect(store.saveSession(record("s1", { name: long }))).rejects.toMatchObject(full);
      await expect(store.putBlob("s1", Buffer.from(long), "text/plain")).rejects.toMatchObject(full);
      await expect(store.claim("s2")).rejects.toMatchObject(full);
      const spill = store.openSpill("s1", "e1.txt", 1_000_000);
      for (let count = 0; count < 20; count += 1) spill.write(long);
      await spill.close();
      expect(logged.join("")).toContain("cut short");
      expect(await store.sessions()).toEqual([record("s1")]);

      rmSync(join(small, "ballast"));
      await store.finish("s1", execution("a"));
      await store.begin("s1", execution("b"));
      await store.finish("s1", execution("b"));
      expect(await store.history("s1")).toEqual([execution("a"), execution("b")]);
      await store.dispose();
    } finally {
      execFileSync("umount", [small]);
    }
  });

  function fill(path: string): void {
    for (const size of [65_536, 4_096, 1]) {
      try {
        for (;;) appendFileSync(path, Buffer.alloc(size));
      } catch {}
    }
  }
});
