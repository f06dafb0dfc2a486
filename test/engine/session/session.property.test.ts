import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Run } from "../../../src/engine/run/run.ts";
import { Session } from "../../../src/engine/session/session.ts";
import type { Execution, ExecutionEvent, Output } from "../../../src/execution.ts";
import { createLog } from "../../../src/log.ts";
import { openLocalWorkspace } from "../../../src/workspace/local/workspace.ts";
import { createFakeProvider } from "../../support/fake-kernel.ts";
import { openMemoryStore } from "../../support/memory-store.ts";

const GRACE_MS = 15;

/** Time passes only while a test waits, a millisecond per turn of the event loop: a busy machine changes nothing. */
beforeEach(
  () => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date"] }),
);
afterEach(() => void vi.useRealTimers());

/** The same clock for code that awaits a promise. */
vi.mock(import("node:timers/promises"), async (original) => ({
  ...(await original()),
  setTimeout: (ms, value, { signal } = {}) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => resolve(value as never), ms);
      signal?.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(signal.reason);
      });
    }),
}));

/** What a cell does besides printing its own numbered lines. */
const step = fc.oneof(
  { weight: 4, arbitrary: fc.constant("print") },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 8 }).map((ms) => `sleep ${ms}`) },
  { weight: 1, arbitrary: fc.integer({ min: 10, max: 40 }).map((ms) => `stubborn ${ms}`) },
  { weight: 1, arbitrary: fc.constant("error oops") },
  { weight: 1, arbitrary: fc.constant("die") },
  { weight: 1, arbitrary: fc.constant("never") },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 10 }).map((ms) => `late ${ms}`) },
);

type Action =
  | { do: "execute"; steps: string[]; timeoutMs: number }
  | { do: "cancel"; which: number }
  | { do: "look"; which: number }
  | { do: "pause"; ms: number }
  | { do: "interrupt" }
  | { do: "reset" }
  | { do: "kernel death" };

const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("execute" as const),
      steps: fc.array(step, { maxLength: 5 }),
      timeoutMs: fc.integer({ min: 1, max: 30 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("cancel" as const), which: fc.nat(9) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("look" as const), which: fc.nat(9) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("pause" as const), ms: fc.integer({ min: 0, max: 12 }) }) },
  {
    weight: 3,
    arbitrary: fc.constantFrom({ do: "interrupt" as const }, { do: "reset" as const }, { do: "kernel death" as const }),
  },
);

interface Cell {
  number: number;
  run: Run;
  abort: AbortController;
  /** Lines that this cell may print, in order, and whether it requested late output. */
  lines: string[];
  lateLines: string[];
  looks: Execution[];
  events: Promise<ExecutionEvent[]>;
  reasons: string[];
}

test("whatever is done to a session, every cell ends once and keeps what is its own", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(action, { minLength: 1, maxLength: 14 }), fc.boolean(), async (actions, slowStart) => {
      const dir = await mkdtemp(join(tmpdir(), "cellwright-property-"));
      const store = openMemoryStore();
      const provider = createFakeProvider({ startMs: slowStart ? 3 : 0 });
      const now = new Date().toISOString();
      const session = new Session({
        record: { id: "property-session", owner: "local", createdAt: now, lastUsedAt: now, cells: 0 },
        folder: { workspaceDir: dir, runDir: dir },
        workspace: openLocalWorkspace(dir),
        provider,
        store,
        log: createLog("silent"),
        admit: () => {},
        now: Date.now,
        defaultTimeoutMs: 1000,
        stopGraceMs: GRACE_MS,
      });
      const cells: Cell[] = [];
      const pending: Promise<unknown>[] = [];
      try {
        for (const next of actions) {
          if (next.do === "execute") cells.push(start(session, cells.length, next.steps, next.timeoutMs));
          else if (next.do === "pause") await pause(next.ms);
          else if (next.do === "interrupt") {
            cells.find((cell) => cell.run.phase !== "finished")?.reasons.push("interrupted");
            pending.push(session.interrupt().catch(() => {}));
          } else if (next.do === "reset") {
            for (const cell of cells) if (isActive(cell)) cell.reasons.push("reset");
            pending.push(session.reset());
          } else if (next.do === "kernel death") provider.kernels.at(-1)?.die("the test killed it.");
          else {
            const cell = cells[next.which % Math.max(cells.length, 1)];
            if (!cell) continue;
            if (next.do === "look") cell.looks.push(cell.run.look());
            else {
              if (isActive(cell)) cell.reasons.push("cancelled");
              cell.abort.abort();
            }
          }
        }
        // No turn is stuck: every cell ends within its time limit, the grace period and the kills.
        await withDeadline(Promise.allSettled(cells.map((cell) => cell.run.finished)), 5_000);
        await pause(12);
        const history = await store.history(session.id);
        for (const cell of cells) await checkCell(cell, history);
        checkOrder(
          cells,
          provider.kernels.flatMap((kernel) => kernel.began),
        );
        const late = session.takeLate().flatMap((block) => linesOf(block.outputs));
        for (const line of late) expect(cells.flatMap((cell) => cell.lateLines)).toContain(line);
        await withDeadline(Promise.all(pending), 5_000);
      } finally {
        await withDeadline(session.close("closed"), 5_000);
        expect(provider.kernels.filter((kernel) => kernel.disposals === 0)).toEqual([]);
        await rm(dir, { recursive: true, force: true });
      }
      for (const kernel of provider.kernels) await withDeadline(kernel.closed, 5_000);
    }),
    { numRuns: Number(process.env.CELLWRIGHT_PROPERTY_RUNS ?? 150), endOnFailure: true },
  );
}, 120_000);

function start(session: Session, number: number, steps: string[], timeoutMs: number): Cell {
  const lines: string[] = [];
  const lateLines: string[] = [];
  const script = steps.map((word, index) => {
    const line = `cell-${number}-line-${index}`;
    if (word === "print") lines.push(line);
    if (word.startsWith("late")) lateLines.push(line);
    return word === "print" || word.startsWith("late") ? `${word} ${line}` : word;
  });
  const abort = new AbortController();
  const run = session.execute([`print cell-${number}-begins`, ...script].join("\n"), {
    timeoutMs,
    signal: abort.signal,
  });
  return {
    number,
    run,
    abort,
    lines: [`cell-${number}-begins`, ...lines],
    lateLines,
    looks: [],
    events: collect(run.events()),
    reasons: [],
  };
}

async function checkCell(cell: Cell, history: Execution[]): Promise<void> {
  const execution = await cell.run.finished;
  const events = await withDeadline(cell.events, 5_000);
  const dones = events.filter((event) => event.type === "done");
  expect(dones).toHaveLength(1);
  expect(events.at(-1)?.type).toBe("done");

  const shown = linesOf(cell.run.snapshot().outputs);
  const own = shown.filter((line) => !cell.lateLines.includes(line));
  expect(own).toEqual(cell.lines.slice(0, own.length));
  if (execution.status === "ok") expect(own).toEqual(cell.lines);
  cell.looks.push(cell.run.look());
  expect(cell.looks.flatMap((look) => linesOf(look.outputs))).toEqual(shown);

  const { stopReason } = cell.run;
  if (stopReason && stopReason !== "timeout") expect(stopReason).toBe(cell.reasons[0]);
  if (stopReason) expect(execution.status).toBe(stopReason === "timeout" ? "timeout" : "interrupted");
  else expect(["ok", "error", "kernel_died"]).toContain(execution.status);

  const recorded = history.find((entry) => entry.id === cell.run.id);
  if (own.length > 0) expect(recorded?.status).toBe(execution.status);
}

function checkOrder(cells: Cell[], began: string[]): void {
  const order = began.map((code) => cells.findIndex((cell) => cell.run.code === code));
  expect(order).toEqual([...order].sort((a, b) => a - b));
  expect(new Set(order).size).toBe(order.length);
}

const isActive = (cell: Cell) => cell.run.phase !== "finished" && cell.run.phase !== "ending";

function linesOf(outputs: Output[]): string[] {
  return outputs.flatMap((output) => (output.type === "stream" ? output.text.split("\n").filter(Boolean) : []));
}

async function collect(events: AsyncIterable<ExecutionEvent>): Promise<ExecutionEvent[]> {
  const all: ExecutionEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

async function pause(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 1) {
    vi.advanceTimersByTime(1);
    await nextTurn();
  }
}

/** Fails if this much time passed in which only time could help. */
async function withDeadline<T>(promise: Promise<T>, ms: number): Promise<T> {
  let isOver = false;
  const over = () => {
    isOver = true;
  };
  promise.then(over, over);
  for (let passed = 0; !isOver; passed += waitsForFiles() ? 0 : 1) {
    if (passed > ms) throw new Error(`not over after ${ms} ms`);
    await pause(1);
  }
  return promise;
}

const waitsForFiles = () => process.getActiveResourcesInfo().some((name) => name.startsWith("FSReq"));
