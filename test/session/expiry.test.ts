import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { createLog } from "../../src/log.ts";
import { Sessions, type SessionsConfig } from "../../src/session/sessions.ts";
import { openDiskStore } from "../../src/store/disk.ts";
import { openLocalWorkspace } from "../../src/workspace/local.ts";
import { createFakeProvider } from "../support/fake-kernel.ts";

const MINUTE = 60_000;

async function start(config: Partial<SessionsConfig> = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), "cellwright-expiry-"));
  const log = createLog("silent");
  const store = await openDiskStore({ dataDir, log });
  const clock = { ms: Date.now() };
  const open = () =>
    new Sessions({
      provider: createFakeProvider(),
      store,
      openWorkspace: openLocalWorkspace,
      log,
      defaultTimeoutMs: 10_000,
      ttlMs: 30 * MINUTE,
      forgetExpired: true,
      keepDays: 7,
      maxSessions: 3,
      warm: 0,
      now: () => clock.ms,
      ...config,
    });
  const sessions = open();
  onTestFinished(async () => {
    await sessions.dispose();
    await store.dispose();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return { sessions, open, clock, folder: (id: string) => join(dataDir, "sessions", id) };
}

describe("where sessions do not outlive their lifetime", () => {
  test("one that is over it is gone with its files, at the next sweep", async () => {
    const { sessions, clock, folder } = await start();
    const { id } = await sessions.create("ann");
    clock.ms += 29 * MINUTE;
    await sessions.sweep();
    expect(existsSync(folder(id))).toBe(true);
    clock.ms += MINUTE + 1;
    await sessions.sweep();
    expect(existsSync(folder(id))).toBe(false);
  });

  test("one that is over it is not found, whether a sweep has been or not", async () => {
    const { sessions, clock, folder } = await start();
    const { id } = await sessions.create("ann");
    const named = await sessions.obtain("ann", "by name");
    clock.ms += 30 * MINUTE + 1;
    await expect(sessions.get("ann", id)).rejects.toMatchObject({ code: "session_not_found" });
    expect(existsSync(folder(id))).toBe(false);
    expect(await sessions.named("ann", "by name")).toBeUndefined();
    expect((await sessions.obtain("ann", "by name")).id).not.toBe(named.id);
  });

  test("a stored one lives as long, and no longer", async () => {
    const { sessions, open, clock, folder } = await start();
    const [kept, old] = [await sessions.create("ann"), await sessions.create("ann")];
    await sessions.dispose();
    const later = open();
    onTestFinished(() => later.dispose());
    clock.ms += 29 * MINUTE;
    expect((await later.get("ann", kept.id)).id).toBe(kept.id);
    clock.ms += MINUTE + 1;
    await expect(later.get("ann", old.id)).rejects.toMatchObject({ code: "session_not_found" });
    expect(existsSync(folder(old.id))).toBe(false);
    expect(existsSync(folder(kept.id))).toBe(true);
  });

  test("a busy one is not over, and use begins its time anew", async () => {
    const { sessions, clock } = await start();
    const session = await sessions.create("ann");
    const run = session.execute("hang");
    clock.ms += 60 * MINUTE;
    await sessions.sweep();
    expect(await sessions.get("ann", session.id)).toBe(session);
    await session.interrupt();
    await run.finished;
    clock.ms += 29 * MINUTE;
    expect(await sessions.get("ann", session.id)).toBe(session);
  });

  test("empty folders of no session are removed when they are old, and nothing else", async () => {
    const { sessions, folder } = await start();
    for (const name of ["old", "new", "full"]) mkdirSync(folder(name));
    writeFileSync(join(folder("full"), "file"), "mine");
    for (const name of ["old", "full"]) utimesSync(folder(name), 0, 0);
    await sessions.sweep();
    expect(["old", "new", "full"].map((name) => existsSync(folder(name)))).toEqual([false, true, true]);
  });
});

describe("sessions by any name", () => {
  test("are begun once, by whoever asks first, and are this process's own", async () => {
    const { sessions, open } = await start({ forgetExpired: false });
    const [one, two] = await Promise.all(["", ""].map((name) => sessions.obtain("ann", name)));
    expect(one).toBe(two);
    expect((await sessions.obtain("bob", "")).id).not.toBe(one?.id);
    const other = open();
    onTestFinished(() => other.dispose());
    expect(await other.named("ann", "")).toBeUndefined();
    expect((await other.obtain("ann", "")).id).not.toBe(one?.id);
  });

  test("count cells that ended, in whatever way, and begin anew with a reset", async () => {
    const { sessions, clock } = await start();
    const session = await sessions.obtain("ann", "s", { envLabel: "default", python: "/bin/python" });
    expect(session.record).toMatchObject({ envLabel: "default", python: "/bin/python" });
    await session.execute("print a").finished;
    const none = await session.execute("print b", { timeoutMs: 0 }).finished;
    expect(none).toMatchObject({ status: "timeout", outputs: [] });
    clock.ms += 1_000;
    expect([session.finishedCells, session.uptimeMs]).toEqual([2, 1_000]);
    await session.reset();
    expect([session.finishedCells, session.uptimeMs]).toEqual([0, 0]);
  });

  test("a cell after a kernel's death is known to have a fresh one; after a reset it is not", async () => {
    const { sessions } = await start();
    const session = await sessions.obtain("ann", "s");
    await session.execute("print a").finished;
    const dying = session.execute("die");
    await dying.finished;
    expect(dying.lost).toBeTruthy();
    const next = session.execute("print b");
    await next.finished;
    expect(next.hasFreshKernel).toBe(true);
    await session.reset();
    const after = session.execute("print c");
    await after.finished;
    expect(after.hasFreshKernel).toBe(false);
  });
});
