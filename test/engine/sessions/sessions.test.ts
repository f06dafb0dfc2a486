import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { Sessions, type SessionsConfig } from "../../../src/engine/sessions/sessions.ts";
import { CellwrightError } from "../../../src/errors.ts";
import type { WarmSlot } from "../../../src/kernels/kernel.ts";
import { createLog } from "../../../src/log.ts";
import type { SessionRecord } from "../../../src/store/store.ts";
import { openLocalWorkspace } from "../../../src/workspace/local/workspace.ts";
import { createFakeKernel, createFakeProvider } from "../../support/fake-kernel.ts";
import { openMemoryStore } from "../../support/memory-store.ts";

const MINUTE = 60_000;
const DAY = 86_400_000;

function start(config: Partial<SessionsConfig> = {}) {
  const store = openMemoryStore();
  const provider = createFakeProvider();
  const clock = { ms: Date.now() };
  const sessions = new Sessions({
    provider,
    store,
    openWorkspace: openLocalWorkspace,
    log: createLog("silent"),
    defaultTimeoutMs: 10_000,
    ttlMs: 30 * MINUTE,
    keepDays: 7,
    maxSessions: 3,
    warm: 0,
    now: () => clock.ms,
    ...config,
  });
  onTestFinished(async () => {
    await sessions.dispose();
    await store.dispose();
  });
  return { sessions, store, provider, clock };
}

describe("sessions", () => {
  test("have 16-character ids that need no escaping, and a private folder", async () => {
    const { sessions, store } = start();
    const session = await sessions.create("ann");
    expect(session.id).toMatch(/^[A-Za-z0-9_-]{16}$/);
    const workspace = join(await store.folder(session.id), "workspace");
    expect(statSync(workspace).mode & 0o777).toBe(0o700);
  });

  test("are found by name too; a name is free text, unique per owner", async () => {
    const { sessions } = start();
    const name = "../../etc/passwd; rm -rf 'é' \u202e";
    const session = await sessions.create("ann", { name });
    expect(await sessions.get("ann", name)).toBe(session);
    await expect(sessions.create("ann", { name })).rejects.toMatchObject({ code: "invalid_input" });
    expect((await sessions.create("bob", { name })).id).not.toBe(session.id);
  });

  test("are found in the order of the calls, however long the store takes for each", async () => {
    const store = openMemoryStore();
    /** The store answers the second query before the first. */
    const slow = { ...store, sessions: () => new Promise<SessionRecord[]>((answer) => questions.push(answer)) };
    const questions: ((records: SessionRecord[]) => void)[] = [];
    const answerAll = async () => {
      const records = await store.sessions();
      for (const answer of questions.splice(0).reverse()) answer(records);
    };
    const { sessions } = start({ store: slow });
    const creating = sessions.create("ann", { name: "twins" });
    await answerAll();
    const { id } = await creating;
    const { sessions: restarted } = start({ store: slow });
    await store.release(id);
    for (const where of [sessions, restarted]) {
      const order: number[] = [];
      const calls = [1, 2, 3].map(async (call) => {
        await where.get("ann", "twins");
        order.push(call);
      });
      await answerAll();
      await Promise.all(calls);
      expect(order).toEqual([1, 2, 3]);
    }
  });

  test("of another owner answer exactly like unknown ones", async () => {
    const { sessions } = start();
    const { id } = await sessions.create("ann", { name: "secret plan" });
    const message = (idOrName: string): Promise<string> =>
      sessions.get("bob", idOrName).then(String, (error) => `${error.code} ${error.message} ${error.hint}`);
    expect((await message(id)).replace(id, "X")).toBe(
      (await message("0000000000000000")).replace("0000000000000000", "X"),
    );
    expect(await message("secret plan")).toContain("session_not_found");
    expect(await sessions.list("bob")).toEqual([]);
  });

  test("that are idle lose their kernel, and the next cell reports it", async () => {
    const { sessions, provider, clock } = start();
    const session = await sessions.create("ann");
    await session.execute("print a").finished;
    clock.ms += 31 * MINUTE;
    await sessions.sweep();
    expect(session.hasKernel).toBe(false);
    expect(provider.kernels[0]?.disposals).toBeGreaterThan(0);
    const { notices } = await session.execute("print b").finished;
    expect(notices.join()).toMatch(/not used for 30 minutes.*variables from before are gone/);
  });

  test("that are busy never expire", async () => {
    const { sessions, clock } = start();
    const session = await sessions.create("ann");
    const run = session.execute("sleep 50\nprint done");
    clock.ms += DAY;
    await sessions.sweep();
    expect((await run.finished).status).toBe("ok");
  });

  test("are forgotten with their files after --keep-days", async () => {
    const { sessions, store, clock } = start();
    const session = await sessions.create("ann");
    const folder = await store.folder(session.id);
    await session.execute("print a").finished;
    clock.ms += 31 * MINUTE;
    await sessions.sweep();
    expect(existsSync(folder)).toBe(true);
    clock.ms += 8 * DAY;
    await sessions.sweep();
    expect(existsSync(folder)).toBe(false);
    await expect(sessions.get("ann", session.id)).rejects.toMatchObject({ code: "session_not_found" });
  });

  test("are limited in number, and the refusal names idle ones to close", async () => {
    const { sessions } = start();
    const open = [];
    for (let i = 0; i < 3; i += 1) {
      const session = await sessions.create("ann");
      await session.execute("print a").finished;
      open.push(session);
    }
    await expect(sessions.create("ann")).rejects.toMatchObject({
      code: "session_limit",
      message: expect.stringContaining(open[0]?.id ?? ""),
    });
    if (open[0]) await sessions.close(open[0]);
    await expect(sessions.create("ann")).resolves.toBeDefined();
  });

  test("created at the same time never overshoot the limit", async () => {
    const { sessions, provider } = start();
    const created = await Promise.allSettled(Array.from({ length: 20 }, () => sessions.create("ann")));
    await Promise.allSettled(
      created.map((result) => (result.status === "fulfilled" ? result.value.execute("print a").finished : undefined)),
    );
    expect(provider.kernels.length).toBeLessThanOrEqual(3);
  });

  test("that were closed refuse cells and still show their files", async () => {
    const { sessions } = start();
    const session = await sessions.create("ann");
    await session.workspace.write("a.txt", Buffer.from("hello"));
    await sessions.close(session);
    const closed = await sessions.get("ann", session.id);
    expect(() => closed.execute("print a")).toThrow(/closed/);
    expect(Buffer.from((await closed.workspace.read("a.txt", { maxBytes: 10 })).bytes).toString()).toBe("hello");
  });

  test.each([{ temporary: true }, { deleteFiles: true }])(
    "that are deleted during the shutdown stay deleted, %j",
    async (how) => {
      const { sessions, store } = start();
      const session = await sessions.create("ann", how);
      await session.execute("print a").finished;
      await Promise.all([sessions.close(session, how), sessions.dispose()]);
      expect(await store.sessions()).toEqual([]);
    },
  );

  test("take over a kernel that was made ready for them, one use each", async () => {
    const slots: WarmSlot[] = [];
    const { sessions } = start({ warm: 2, provider: { ...createFakeProvider(), warm: (slot) => slots.push(slot) } });
    sessions.warm();
    await expect.poll(() => slots.length).toBe(2);
    const session = await sessions.create("ann");
    expect(session.id).toBe(slots[0]?.sessionId);
    await expect.poll(() => slots.length).toBe(3);
    expect(new Set(slots.map((slot) => slot.sessionId)).size).toBe(3);
  });
});

describe("reset", () => {
  test("stops the cell and those behind it, and keeps id, files and history", async () => {
    const { sessions, provider } = start();
    const session = await sessions.create("ann");
    await session.workspace.write("a.txt", Buffer.from("hello"));
    const running = session.execute("print a\nsleep 60000");
    const queued = session.execute("print b");
    await expect.poll(() => running.phase).toBe("running");
    await session.reset();
    const after = session.execute("count");
    expect((await running.finished).status).toBe("interrupted");
    expect((await queued.finished).notices.join()).toContain("nothing was run");
    expect((await after.finished).outputs).toMatchObject([{ text: "1\n" }]);
    expect(provider.kernels.length).toBe(2);
    expect((await session.history()).map((execution) => execution.status)).toEqual(["interrupted", "ok"]);
  });
});

describe("a cell that lacks a package", () => {
  test("ends as an error without being run, and the session goes on", async () => {
    const kernel = createFakeKernel();
    const prepare = async (code: string) => {
      if (code.includes("missing")) throw new CellwrightError("package_error", "There is no package `missing`.");
    };
    const { sessions } = start({
      provider: { ...createFakeProvider(), start: async () => Object.assign(kernel, { prepare }) },
    });
    const session = await sessions.create("ann");
    const failed = await session.execute("print missing").finished;
    expect(failed).toMatchObject({ status: "error", outputs: [{ type: "error", name: "PackageError" }] });
    expect(kernel.began).toEqual([]);
    expect((await session.execute("print here").finished).status).toBe("ok");
    expect((await session.history()).map(({ status }) => status)).toEqual(["error", "ok"]);
  });
});

describe("late output", () => {
  test("belongs to the cell it came from and is handed out once", async () => {
    const { sessions } = start();
    const session = await sessions.create("ann");
    const run = session.execute("print a\nlate 5 afterwards");
    await run.finished;
    await expect.poll(() => run.snapshot().outputs.length === 1 && run.lastLine).toBe("afterwards");
    expect(session.takeLate()).toMatchObject([{ executionId: run.id, outputs: [{ text: "afterwards\n" }] }]);
    expect(session.takeLate()).toEqual([]);
    await expect.poll(async () => JSON.stringify((await session.history())[0]?.outputs)).toContain("afterwards");
  });
});
