import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, onTestFinished, test } from "vitest";
import type { Session } from "../../../src/engine/session/session.ts";
import { Sessions } from "../../../src/engine/sessions/sessions.ts";
import type { ExecutionEvent, Variables } from "../../../src/execution.ts";
import type { KernelProvider } from "../../../src/kernels/kernel.ts";
import { createLog } from "../../../src/log.ts";
import { openLocalWorkspace } from "../../../src/workspace/local/workspace.ts";
import { openMemoryStore } from "../../support/memory-store.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const MB = 1024 * 1024;

/** A kernel whose cells show what the test asks for, and that can send late output for each of them. */
function start() {
  const late: ((event: ExecutionEvent) => void)[] = [];
  const shown = new Map<string, ExecutionEvent[]>();
  const provider: KernelProvider = {
    name: "late",
    list: async () => [],
    start: async () => ({
      info: { provider: "late", language: "python" as const, description: "Late kernel", layers: [] },
      closed: new Promise<never>(() => {}),
      async *execute(code, { onLate } = {}) {
        if (onLate) late.push(onLate);
        yield* shown.get(code) ?? [];
        shown.delete(code);
        yield { type: "done", status: "ok", executionCount: late.length };
      },
      dispose: async () => {},
    }),
    dispose: async () => {},
  };
  const store = openMemoryStore();
  const config = { provider, store, openWorkspace: openLocalWorkspace, log: createLog("silent") };
  const sessions = new Sessions({
    ...config,
    defaultTimeoutMs: 10_000,
    ttlMs: 0,
    keepDays: 7,
    maxSessions: 3,
    warm: 0,
  });
  onTestFinished(async () => {
    await sessions.dispose();
    await store.dispose();
  });
  return { sessions, store, shown, late };
}

async function isCollected(ref: WeakRef<object>): Promise<boolean> {
  for (let round = 0; round < 20 && ref.deref(); round += 1) {
    // V8 keeps what a job has read until the job is over.
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
  }
  return ref.deref() === undefined;
}

async function runWith(session: Session, code: string, variables?: Variables): Promise<void> {
  await session.execute(code, { ...(variables && { variables }) }).finished;
}

test("a kernel that waits for late output keeps alive neither a cell's variables nor what it showed", async () => {
  const { sessions, shown, late } = start();
  const session = await sessions.create("ann");
  const refs: WeakRef<object>[] = [];
  const runLarge = async () => {
    const variables = { image: new Uint8Array(MB) };
    const data = { "application/json": Array.from({ length: 1_000_000 }, () => []) };
    refs.push(new WeakRef(variables), new WeakRef(data));
    shown.set("large", [{ type: "display", data }]);
    await runWith(session, "large", variables);
  };
  await runLarge();
  await runWith(session, "small");
  expect(late).toHaveLength(2);
  expect(await Promise.all(refs.map(isCollected))).toEqual([true, true]);
});

test("late output of a released cell still arrives, and is not attributed to another cell", async () => {
  const { sessions, store, shown, late } = start();
  const session = await sessions.create("ann");
  shown.set("large", [{ type: "display", data: { "text/html": "x".repeat(9 * MB) } }]);
  await runWith(session, "large");
  await runWith(session, "small");
  for (const tell of late) tell({ type: "stream", name: "stdout", text: "late\n" });
  expect(session.takeLate()).toMatchObject([
    { executionCount: 1, outputs: [{ text: "late\n" }] },
    { executionCount: 2, outputs: [{ text: "late\n" }] },
  ]);
  await new Promise((resolve) => setImmediate(resolve));
  const [large, small] = await store.history(session.id);
  expect(large?.outputs).toHaveLength(1);
  expect(small?.outputs).toMatchObject([{ text: "late\n" }]);
});
