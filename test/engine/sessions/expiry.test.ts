import { existsSync, mkdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import type { SessionsConfig } from "../../../src/engine/sessions/sessions.ts";
import { startEngine } from "../../support/engine.ts";

const MINUTE = 60_000;

const start = (config: Partial<SessionsConfig> = {}) =>
  startEngine({ guest: { forgetsIdleSessions: true }, ...config });

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
    clock.ms += 30 * MINUTE + 1;
    await expect(sessions.get("ann", id)).rejects.toMatchObject({ code: "session_not_found" });
    expect(existsSync(folder(id))).toBe(false);
  });

  test("one that is looked for while a sweep deletes it is not found", async () => {
    const { sessions, clock } = await start();
    for (let round = 0; round < 20; round += 1) {
      const { id } = await sessions.create("ann");
      clock.ms += 30 * MINUTE + 1;
      let isOver = false;
      const swept = sessions.sweep().finally(() => {
        isOver = true;
      });
      const looks: Promise<unknown>[] = [];
      while (!isOver) {
        looks.push(sessions.get("ann", id).catch(({ code, message }) => code ?? message));
        await nextTurn();
      }
      await swept;
      expect(new Set(await Promise.all(looks))).toEqual(new Set(["session_not_found"]));
    }
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

  test("a busy one does not expire, and use restarts its lifetime", async () => {
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

test("a cell after a kernel's death is known to have a fresh one; after a reset it is not", async () => {
  const { sessions } = await start();
  const session = await sessions.create("ann");
  await session.execute("print a").finished;
  const dying = session.execute("die");
  await dying.finished;
  expect(dying.lost).toBeTruthy();
  const next = session.execute("print b");
  await next.finished;
  expect(next.fate.lost).toBeDefined();
  await session.reset();
  const after = session.execute("print c");
  await after.finished;
  expect(after.fate.lost).toBeUndefined();
});
