import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { CellwrightError } from "../../src/errors.ts";
import { createLog } from "../../src/log.ts";
import { openDiskStore } from "../../src/store/disk.ts";
import { openMirroredStore } from "../../src/store/mirrored.ts";
import type { Mirror, Store } from "../../src/store/store.ts";
import { execution, record, testStore } from "../contracts/store.ts";

let base: string;
let opened: Store[];
let logged: string[];
const log = createLog("warn", (line) => logged.push(line));

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "cellwright-mirrored-"));
  opened = [];
  logged = [];
});
afterEach(async () => {
  for (const store of opened) await store.dispose();
  rmSync(base, { recursive: true, force: true });
});

/** A mirror that is a folder: whole copies, without the workspace. */
function folderMirror(folder = join(base, "mirror")): Mirror & { pushes: string[]; inUse: Set<string> } {
  const pushes: string[] = [];
  const inUse = new Set<string>();
  const names = ["session.json", "journal.ndjson", "outputs"];
  return {
    pushes,
    inUse,
    async push(sessionId, from) {
      pushes.push(sessionId);
      mkdirSync(join(folder, sessionId), { recursive: true });
      for (const name of names) {
        if (existsSync(join(from, name))) cpSync(join(from, name), join(folder, sessionId, name), { recursive: true });
      }
    },
    claim: async (sessionId) => !inUse.has(sessionId),
    list: async () => (existsSync(folder) ? readdirSync(folder).filter((id) => !inUse.has(id)) : []),
    pull: async (sessionId, to) => cpSync(join(folder, sessionId), to, { recursive: true }),
    forget: async (sessionId) => rmSync(join(folder, sessionId), { recursive: true, force: true }),
  };
}

async function open({ mirror = folderMirror() as Mirror, disk = "disk", waitMs = 5_000 } = {}): Promise<Store> {
  const store = openMirroredStore({
    store: await openDiskStore({ dataDir: join(base, disk), log }),
    mirror,
    log,
    waitMs,
  });
  opened.push(store);
  return store;
}

testStore({ name: "a mirrored store", open: () => open() });

describe("a mirrored store", () => {
  test("brings sessions, history and outputs back on a machine whose disk is new", async () => {
    const image = Buffer.alloc(50_000, 3).toString("base64");
    const shown = execution("a", { outputs: [{ type: "display", data: { "image/png": image } }] });
    const first = await open();
    await first.claim("s1");
    await first.saveSession(record("s1", { name: "Sales" }));
    await first.begin("s1", execution("a", { status: "running" }));
    await first.finish("s1", shown);
    await first.release("s1");

    const second = await open({ disk: "another" });
    expect(await second.sessions()).toEqual([record("s1", { name: "Sales" })]);
    expect(await second.history("s1")).toEqual([shown]);
    expect(await second.claim("s1")).toBe(true);
  });

  test("has the end of a cell in the mirror before the cell's reply", async () => {
    const store = await open();
    await store.begin("s1", execution("a", { status: "running" }));
    await store.finish("s1", execution("a"));
    expect(readFileSync(join(base, "mirror/s1/journal.ndjson"), "utf8")).toContain('"finish"');
  });

  test("does not fetch what is here, or what another program uses", async () => {
    const mirror = folderMirror();
    const first = await open({ mirror });
    for (const id of ["s1", "s2"]) await first.saveSession(record(id));
    for (const id of ["s1", "s2"]) await first.release(id);
    await first.saveSession(record("s1", { name: "newer" }));
    mirror.pull = vi.fn(mirror.pull);
    mirror.inUse.add("s2");
    const again = await open({ mirror });
    expect((await again.sessions()).length).toBe(2);
    const second = await open({ mirror, disk: "another" });
    expect((await second.sessions()).map(({ id }) => id)).toEqual(["s1"]);
    expect(mirror.pull).toHaveBeenCalledTimes(1);
  });

  test("does not give a session that is in use elsewhere, and says where", async () => {
    const mirror = folderMirror();
    const store = await open({ mirror });
    await store.saveSession(record("s1"));
    mirror.inUse.add("s1");
    expect(await store.claim("s1")).toBe(false);
    expect(await store.claimedBy("s1")).toMatch(/another Cellwright/);
    mirror.inUse.delete("s1");
    expect(await store.claim("s1")).toBe(true);
    expect(await store.claimedBy("s1")).toBeUndefined();
  });

  test("goes on without a mirror that cannot be reached, warns once, and catches up", async () => {
    const mirror = folderMirror();
    const push = mirror.push;
    let isDown = true;
    mirror.push = async (...args) => {
      if (isDown) throw new CellwrightError("server_unreachable", "It is away.");
      return push(...args);
    };
    const store = await open({ mirror });
    for (const id of ["s1", "s2"]) {
      await store.saveSession(record(id));
      for (const cell of ["a", "b"]) {
        await store.begin(id, execution(cell));
        await store.finish(id, execution(cell));
      }
    }
    expect(await store.history("s1")).toHaveLength(2);
    expect(logged.filter((line) => line.includes("It is away"))).toHaveLength(1);
    isDown = false;
    await store.begin("s2", execution("c"));
    await store.finish("s2", execution("c"));
    await store.release("s2");
    await store.release("s1");
    for (const id of ["s1", "s2"]) {
      expect(readFileSync(join(base, "mirror", id, "journal.ndjson"), "utf8")).toBe(
        readFileSync(join(base, "disk/sessions", id, "journal.ndjson"), "utf8"),
      );
    }
  });

  test("does not wait for ever for a mirror that says nothing, and not at all when it is known to fail", async () => {
    const mirror = folderMirror();
    let release = () => {};
    mirror.push = () =>
      new Promise((resolve) => {
        release = resolve;
      });
    const store = await open({ mirror, waitMs: 200 });
    await store.begin("s1", execution("a"));
    await store.finish("s1", execution("a"));
    release();
    mirror.push = async () => {
      throw new CellwrightError("server_unreachable", "It is away.");
    };
    await store.finish("s1", execution("a"));
    await store.finish("s1", execution("a"));
    expect(await store.history("s1")).toHaveLength(1);
  });

  test("sends one copy at a time, and what is new meanwhile with the next", async () => {
    const mirror = folderMirror();
    const push = mirror.push;
    let running = 0;
    let most = 0;
    mirror.push = async (...args) => {
      running += 1;
      most = Math.max(most, running);
      await nextTurn();
      await push(...args);
      running -= 1;
    };
    const store = await open({ mirror });
    await Promise.all(
      Array.from({ length: 50 }, async (_, index) => {
        await store.begin("s1", execution(`cell-${index}`));
        await store.finish("s1", execution(`cell-${index}`));
      }),
    );
    expect(most).toBe(1);
    expect(mirror.pushes.length).toBeLessThan(100);
    expect(readFileSync(join(base, "mirror/s1/journal.ndjson"), "utf8")).toBe(
      readFileSync(join(base, "disk/sessions/s1/journal.ndjson"), "utf8"),
    );
  });

  test("forgets a session there and here, and keeps it in both places when that does not work", async () => {
    const mirror = folderMirror();
    const store = await open({ mirror });
    for (const id of ["s1", "s2"]) {
      await store.saveSession(record(id));
      await store.finish(id, execution("a"));
    }
    const forget = mirror.forget;
    mirror.forget = async () => {
      throw new CellwrightError("server_unreachable", "It is away.");
    };
    await expect(store.forget("s1")).rejects.toMatchObject({ code: "server_unreachable" });
    expect((await store.sessions()).length).toBe(2);
    mirror.forget = forget;
    await store.forget("s1");
    expect(readdirSync(join(base, "mirror"))).toEqual(["s2"]);
    expect((await store.sessions()).map(({ id }) => id)).toEqual(["s2"]);
  });

  test("removes orphaned folders on its disk", async () => {
    const store = await open();
    const orphan = join(base, "disk", "sessions", "never-saved");
    mkdirSync(orphan);
    await store.removeOrphans?.(60_000);
    expect(existsSync(orphan)).toBe(true);
    // Unused since a later time than now, because the folder is new.
    await store.removeOrphans?.(-60_000);
    expect(existsSync(orphan)).toBe(false);
  });

  test("starts without a mirror that cannot be looked at, and leaves names alone that are no sessions", async () => {
    const mirror = folderMirror();
    mirror.list = async () => ["../escape", "s1"];
    mirror.pull = async () => {
      throw new CellwrightError("server_unreachable", "It is away.");
    };
    const store = await open({ mirror });
    expect(await store.sessions()).toEqual([]);
    expect(existsSync(join(base, "disk/escape"))).toBe(false);
    expect(logged.join()).toContain("session s1: cannot be fetched");
  });
});
