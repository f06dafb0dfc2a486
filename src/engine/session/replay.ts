import { setTimeout as delay } from "node:timers/promises";
import type { Execution, Output } from "../../execution.ts";
import type { Kernel } from "../../kernels/kernel.ts";
import type { CellOptions } from "../guest.ts";
import type { ReplayedCells } from "../run/kernel-fate.ts";
import { defaultOutputLimits, Outputs } from "../run/outputs.ts";

export interface ReplayOptions {
  /** Aborted when the cell that waits for the replay is stopped. */
  signal: AbortSignal;
  /** Time limit of each cell; `graceMs` is its time to stop after an interrupt. */
  timeoutMs: number;
  graceMs: number;
  cellOptions?: CellOptions | undefined;
  progress: (message: string) => void;
}

/** The outcome of a replay. */
export interface Replayed {
  /** For the reply. */
  notices: string[];
  /** The kernel hangs and must be dropped. */
  isUnusable: boolean;
  /** What `replayAll` ran. */
  replayed?: ReplayedCells;
}

/**
 * Replays a session's earlier cells in a fresh kernel to restore its variables. Stops at the first different outcome.
 */
export async function replay(
  kernel: Kernel,
  cells: Pick<Execution, "id" | "code" | "status">[],
  options: ReplayOptions & { outputsOf: (id: string) => Promise<Output[]> },
): Promise<Replayed> {
  const kept = cells.filter(({ status }) => status === "ok" || status === "error");
  let diverged: number | undefined;
  for (const [index, cell] of kept.entries()) {
    const number = index + 1;
    options.progress(`running the session's earlier cells again, ${number} of ${kept.length}`);
    const again = await runAgain(kernel, cell.code, options);
    if (again === undefined) {
      return {
        notices: [`${STARTED} cell ${number} of ${kept.length} did not end. ${NOTHING_BACK}`],
        isUnusable: true,
      };
    }
    if (again.status !== cell.status) {
      const rest = kept.length - number;
      const ended = again.error ? `ended with ${again.error}` : "did not fail as before";
      const left = rest > 0 ? ` The ${rest} cells after it were not run.` : "";
      return { notices: [`${STARTED} cell ${number} of ${kept.length} ${ended}.${left}`], isUnusable: false };
    }
    // Loaded one at a time: all outputs of a session may not fit into memory.
    if (diverged === undefined && again.text !== textOf(await options.outputsOf(cell.id))) diverged = number;
  }
  const stopped = cells.length - kept.length;
  return { notices: [summary(kept.length, { diverged, stopped })], isUnusable: false };
}

/** Replays all of these cells in a fresh kernel; a failure does not stop the replay. */
export async function replayAll(kernel: Kernel, codes: string[], options: ReplayOptions): Promise<Replayed> {
  const failures: ReplayedCells["failures"] = [];
  let isUnusable = false;
  for (const [index, code] of codes.entries()) {
    const cell = index + 1;
    options.progress(`running the session's earlier cells again, ${cell} of ${codes.length}`);
    const again = await runAgain(kernel, code, options);
    isUnusable = again === undefined;
    const error = isUnusable ? "TimeoutError: it did not end" : again?.error;
    if (error !== undefined) failures.push({ cell, error });
    if (isUnusable) break;
  }
  const notices = [
    `The kernel was lost: the session's ${codes.length} successful cells were run again.`,
    ...failures.map(({ cell, error }) => `Cell ${cell} of them failed this time: ${error}`),
  ];
  return { notices, isUnusable, replayed: { cells: codes.length, failures } };
}

const STARTED = "The kernel was lost, so the session's earlier cells were run again, but";
const NOTHING_BACK = "Its variables are lost, files are kept.";

function summary(count: number, { diverged, stopped }: { diverged: number | undefined; stopped: number }): string {
  const all = `The kernel was lost: the session's ${count} earlier cells were run again in a fresh one.`;
  const differs = diverged === undefined ? "" : ` Cell ${diverged} showed a different output.`;
  const left = stopped === 0 ? "" : ` ${stopped} cells that had been stopped were skipped.`;
  return `${all}${differs}${left}`;
}

interface RunAgain {
  status: "ok" | "error";
  text: string;
  error?: string;
}

/** Undefined: the cell neither ended nor stopped in time. */
async function runAgain(kernel: Kernel, code: string, options: ReplayOptions): Promise<RunAgain | undefined> {
  const over = new AbortController();
  try {
    return await Promise.race([collect(kernel, code, options), timesOut(kernel, options, over.signal)]);
  } finally {
    over.abort();
  }
}

/** Resolves when the caller stops the replay, or when the kernel ignores an interrupt after the time limit. */
async function timesOut(kernel: Kernel, options: ReplayOptions, over: AbortSignal): Promise<undefined> {
  const ends = AbortSignal.any([over, options.signal]);
  try {
    await delay(options.timeoutMs, undefined, { signal: ends });
    await kernel.interrupt?.();
    await delay(options.graceMs, undefined, { signal: ends });
  } catch {
    // The cell ended, or the wait was canceled.
  }
}

async function collect(kernel: Kernel, code: string, { signal, cellOptions }: ReplayOptions): Promise<RunAgain> {
  const outputs = new Outputs(defaultOutputLimits);
  let error: string | undefined;
  try {
    await kernel.prepare?.(code, { signal, ...cellOptions });
    for await (const event of kernel.execute(code, { ...cellOptions, replay: true })) {
      outputs.add(event);
      if (event.type === "error") error = `${event.name}: ${event.message.slice(0, 200)}`;
    }
  } catch (reason) {
    error = (reason as Error).message;
  }
  return { status: error === undefined ? "ok" : "error", text: textOf(outputs.list()), ...(error ? { error } : {}) };
}

/** Text and values; images are left out, since their bytes may differ from run to run. */
function textOf(outputs: Output[]): string {
  return outputs
    .map((output) => {
      if (output.type === "stream") return output.text;
      if (output.type === "error") return `${output.name}: ${output.message}`;
      return String(output.data["text/plain"] ?? "");
    })
    .join("\n");
}
