import { setTimeout as delay } from "node:timers/promises";
import type { Execution, ExecutionEvent, Output } from "../execution.ts";
import type { Kernel } from "../kernels/kernel.ts";
import { defaultOutputLimits, Outputs } from "./outputs.ts";

export interface ReplayOptions {
  /** Aborted when the cell that waits for the replay is stopped. */
  signal: AbortSignal;
  /** How long one cell may take, and how long to stop when it was told to. */
  timeoutMs: number;
  graceMs: number;
  /** Whether lines that are shell commands are run as such, as far as that is done again. */
  commands: boolean;
  /** Whether they are run as IPython runs them without us. */
  classic?: boolean | undefined;
  progress: (message: string) => void;
}

/** What became of it, as a sentence for the reply. `unusable`: the kernel hangs and must not be used. */
export interface Replayed {
  notice: string;
  unusable: boolean;
}

/** Runs a session's earlier cells again in a fresh kernel, so that its variables are back. Stops where one fails. */
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
    const again = await runAgain(kernel, cell, options);
    if (again === undefined) {
      return { unusable: true, notice: `${STARTED} cell ${number} of ${kept.length} did not end. ${NOTHING_BACK}` };
    }
    if (again.status !== cell.status) {
      const rest = kept.length - number;
      const ended = again.error ? `ended with ${again.error}` : "did not fail as it did before";
      const left = rest > 0 ? ` The ${rest} cells after it were not run.` : "";
      return { unusable: false, notice: `${STARTED} cell ${number} of ${kept.length} ${ended}.${left}` };
    }
    // One after another: all that a session showed would be too much at once.
    if (diverged === undefined && again.text !== textOf(await options.outputsOf(cell.id))) diverged = number;
  }
  const stopped = cells.length - kept.length;
  return { unusable: false, notice: summary(kept.length, { diverged, stopped }) };
}

/** What became of each cell that failed now. `unusable`: the kernel hangs and must not be used. */
export interface ReplayedAll {
  failures: { cell: number; error: string }[];
  unusable: boolean;
}

/** Runs cells that succeeded again in a fresh kernel, all of them, whatever becomes of one. */
export async function replayAll(kernel: Kernel, codes: string[], options: ReplayOptions): Promise<ReplayedAll> {
  const failures: ReplayedAll["failures"] = [];
  for (const [index, code] of codes.entries()) {
    const cell = index + 1;
    options.progress(`running the session's earlier cells again, ${cell} of ${codes.length}`);
    const again = await runAgain(kernel, { code }, options);
    if (again?.error !== undefined) failures.push({ cell, error: again.error });
    if (again) continue;
    failures.push({ cell, error: "TimeoutError: it did not end" });
    return { failures, unusable: true };
  }
  return { failures, unusable: false };
}

const STARTED = "The kernel was gone, so the session's earlier cells were run again, but";
const NOTHING_BACK = "Its variables are lost, files are kept.";

function summary(count: number, { diverged, stopped }: { diverged: number | undefined; stopped: number }): string {
  const all = `The kernel was gone: the session's ${count} earlier cells were run again in a fresh one.`;
  const differs = diverged === undefined ? "" : ` Cell ${diverged} showed something else than before.`;
  const left = stopped === 0 ? "" : ` ${stopped} cells that had been stopped were left out.`;
  return `${all}${differs}${left}`;
}

interface RunAgain {
  status: "ok" | "error";
  text: string;
  error?: string;
}

/** Undefined: the cell neither ended nor stopped in time. */
async function runAgain(
  kernel: Kernel,
  cell: Pick<Execution, "code">,
  options: ReplayOptions,
): Promise<RunAgain | undefined> {
  const over = new AbortController();
  try {
    return await Promise.race([collect(kernel, cell, options), patienceEnds(kernel, options, over.signal)]);
  } finally {
    over.abort();
  }
}

/** Resolves when the caller has stopped it, or the kernel has not stopped when told to. */
async function patienceEnds(kernel: Kernel, options: ReplayOptions, over: AbortSignal): Promise<undefined> {
  const ends = AbortSignal.any([over, options.signal]);
  try {
    await delay(options.timeoutMs, undefined, { signal: ends });
    await kernel.interrupt?.();
    await delay(options.graceMs, undefined, { signal: ends });
  } catch {
    // Stopped, or nobody waits any more.
  }
}

async function collect(kernel: Kernel, cell: Pick<Execution, "code">, options: ReplayOptions): Promise<RunAgain> {
  const outputs = new Outputs(defaultOutputLimits);
  const error = await consume(kernel, cell, options, outputs).catch((reason: Error) => reason.message);
  return { status: error === undefined ? "ok" : "error", text: textOf(outputs.list()), ...(error ? { error } : {}) };
}

async function consume(
  kernel: Kernel,
  { code }: Pick<Execution, "code">,
  { signal, commands, classic }: ReplayOptions,
  outputs: Outputs,
): Promise<string | undefined> {
  await kernel.prepare?.(code, { signal, commands, classic });
  let error: string | undefined;
  for await (const event of kernel.execute(code, { commands: commands ? "again" : undefined, classic })) {
    outputs.add(event);
    if (event.type === "error") error = nameOf(event);
  }
  return error;
}

function nameOf({ name, message }: Extract<ExecutionEvent, { type: "error" }>): string {
  return `${name}: ${message.slice(0, 200)}`;
}

/** What a reader would compare: text and values, not pictures, whose bytes may differ from run to run. */
function textOf(outputs: Execution["outputs"]): string {
  return outputs
    .map((output) => {
      if (output.type === "stream") return output.text;
      if (output.type === "error") return `${output.name}: ${output.message}`;
      return String(output.data["text/plain"] ?? "");
    })
    .join("\n");
}
