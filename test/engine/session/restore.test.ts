import { describe, expect, onTestFinished, test } from "vitest";
import { Sessions, type SessionsConfig } from "../../../src/engine/sessions/sessions.ts";
import type { ExecutionEvent } from "../../../src/execution.ts";
import type { AdoptedKernel } from "../../../src/kernels/kernel.ts";
import { createLog } from "../../../src/log.ts";
import { openLocalWorkspace } from "../../../src/workspace/local/workspace.ts";
import { createFakeKernel, createFakeProvider } from "../../support/fake-kernel.ts";
import { openMemoryStore } from "../../support/memory-store.ts";

function start(config: Partial<SessionsConfig> = {}) {
  const store = config.store ?? openMemoryStore();
  const provider = createFakeProvider();
  const sessions = new Sessions({
    provider,
    store,
    openWorkspace: openLocalWorkspace,
    log: createLog("silent"),
    defaultTimeoutMs: 10_000,
    ttlMs: 0,
    keepDays: 7,
    maxSessions: 3,
    warm: 0,
    ...config,
  });
  onTestFinished(() => sessions.dispose());
  return { sessions, store, provider };
}

function text(execution: { outputs: { type: string }[] }): string {
  return execution.outputs.map((output) => ("text" in output ? output.text : "")).join("");
}

describe("a lost kernel with --restore replay", () => {
  const restore = { restore: "replay" as const };

  test("is rebuilt from the history, which does not grow", async () => {
    const { sessions, provider } = start(restore);
    const session = await sessions.create("ann");
    await session.execute("print one").finished;
    await session.execute("error two").finished;
    await session.execute("die").finished;
    const after = await session.execute("count").finished;
    expect(provider.kernels.at(-1)?.began).toEqual(["print one", "error two", "count"]);
    expect(text(after)).toBe("3\n");
    expect(after.notices.join()).toContain("2 earlier cells were run again");
    expect(after.notices.join()).toContain("1 cells that had been stopped were skipped");
    expect((await session.history()).map(({ code }) => code)).toEqual(["print one", "error two", "die", "count"]);
    expect((await session.execute("count").finished).notices).toEqual([]);
  });

  test("is not rebuilt without it", async () => {
    const { sessions, provider } = start();
    const session = await sessions.create("ann");
    await session.execute("print one").finished;
    await session.execute("die").finished;
    await session.execute("count").finished;
    expect(provider.kernels.at(-1)?.began).toEqual(["count"]);
  });

  test("stops at the first cell that ends otherwise, and says which", async () => {
    const { sessions, provider } = start(restore);
    const session = await sessions.create("ann");
    await session.execute("print one").finished;
    await session.execute("changed error boom").finished;
    await session.execute("print three").finished;
    await session.execute("die").finished;
    provider.world.changed = true;
    const after = await session.execute("print after").finished;
    expect(after.status).toBe("ok");
    expect(after.notices.join()).toContain("cell 2 of 3 ended with ValueError");
    expect(after.notices.join()).toContain("The 1 cells after it were not run");
    expect(provider.kernels.at(-1)?.began).toEqual(["print one", "changed error boom", "print after"]);
  });

  test("says which cell showed something else, and goes on", async () => {
    const { sessions, provider } = start(restore);
    const session = await sessions.create("ann");
    await session.execute("print before the reset").finished;
    await session.reset();
    await session.execute("changed print new").finished;
    await session.execute("die").finished;
    provider.world.changed = true;
    const after = await session.execute("count").finished;
    expect(after.notices.join()).toContain("Cell 1 showed a different output");
    expect(provider.kernels.at(-1)?.began).toEqual(["changed print new", "count"]);
  });

  test("a cell that is stopped while the others run again never ran", async () => {
    const { sessions, provider } = start(restore);
    const session = await sessions.create("ann");
    await session.execute("changed never").finished;
    await session.execute("die").finished;
    provider.world.changed = true;
    const cancel = new AbortController();
    const run = session.execute("print after", { signal: cancel.signal });
    await expect.poll(() => provider.kernels.at(-1)?.began).toEqual(["changed never"]);
    cancel.abort();
    const stopped = await run.finished;
    expect(stopped.status).toBe("interrupted");
    expect(stopped.notices.join()).toContain("nothing was run");
  });
});

describe("a kernel that an earlier run of the program left behind", () => {
  async function* events(...list: ExecutionEvent[]): AsyncGenerator<ExecutionEvent> {
    yield* list;
  }
  const printed: ExecutionEvent = { type: "stream", name: "stdout", text: "meanwhile\n" };
  const done: ExecutionEvent = { type: "done", status: "ok", executionCount: 7 };

  /** A session with a cell whose end was never recorded. */
  async function crashed() {
    const store = openMemoryStore();
    const former = start({ store });
    const session = await former.sessions.create("ann");
    const run = session.execute("never");
    await expect.poll(() => run.phase).toBe("running");
    await store.release(session.id);
    return { store, id: session.id };
  }

  function adopting(adopted: AdoptedKernel | undefined) {
    const provider = createFakeProvider();
    return { ...provider, adopt: async () => adopted };
  }

  test("is taken over with the cell that was running", async () => {
    const { store, id } = await crashed();
    const kernel = createFakeKernel();
    const newestCell = { code: "never", events: events(printed, done) };
    const { sessions } = start({ store, provider: adopting({ kernel, newestCell }) });
    await sessions.adopt();
    const session = await sessions.get("ann", id);
    const execution = await session.run()?.finished;
    expect(execution).toMatchObject({ status: "ok", executionCount: 7, code: "never" });
    expect(execution && text(execution)).toBe("meanwhile\n");
    expect((await session.history()).at(-1)).toMatchObject({ id: execution?.id, status: "ok" });
    const next = await session.execute("print next").finished;
    expect(next.notices).toEqual([]);
    expect(kernel.began).toEqual(["print next"]);
  });

  test("is taken over when the session is asked for, too", async () => {
    const { store, id } = await crashed();
    const kernel = createFakeKernel();
    const { sessions } = start({ store, provider: adopting({ kernel }) });
    const session = await sessions.get("ann", id);
    expect((await session.execute("print next").finished).notices).toEqual([]);
    expect(kernel.began).toEqual(["print next"]);
  });

  test("that is gone leaves the session free for others", async () => {
    const { store, id } = await crashed();
    const { sessions } = start({ store, provider: adopting(undefined) });
    await sessions.adopt();
    expect(await store.claimedBy(id)).toBeUndefined();
    const session = await sessions.get("ann", id);
    expect((await session.execute("print next").finished).notices.join()).toContain("restarted");
  });
});

describe("two languages", () => {
  test("have a kernel each, and take turns", async () => {
    const { sessions, provider } = start();
    const session = await sessions.create("ann");
    const runs = [
      session.execute("count"),
      session.execute("count", { language: "bash" }),
      session.execute("count"),
      session.execute("count", { language: "bash" }),
    ];
    const texts = (await Promise.all(runs.map((run) => run.finished))).map(text);
    expect(texts).toEqual(["1\n", "1\n", "2\n", "2\n"]);
    expect(provider.kernels).toHaveLength(2);
    await session.reset();
    expect(session.hasKernel).toBe(false);
  });
});
