import type { ExecutionEvent, Output } from "../execution.ts";
import { Outputs } from "./outputs.ts";
import type { Run } from "./run.ts";

/** Output of a finished cell that came after its end, from something it left running. */
export interface LateOutput {
  executionId: string;
  executionCount: number | null;
  outputs: Output[];
}

/** Cells whose late output is kept until somebody asks; a task that prints for ever must not pile up. */
const MAX_CELLS = 20;

/** Far less than what a cell may show: nobody waits for it, and there may be many. */
const limits = { sideChars: 16_000, displays: 10, displayChars: 1_000_000 };

/** Late output that nobody has been shown yet, by the cell it belongs to. */
export class LateOutputs {
  readonly #byRun = new Map<Run, Outputs>();

  /** False if it was too much to keep. */
  add(run: Run, event: ExecutionEvent): boolean {
    const outputs = this.#byRun.get(run) ?? new Outputs(limits);
    const dropped = outputs.droppedDisplays;
    outputs.add(event);
    this.#byRun.set(run, outputs);
    const oldest = this.#byRun.keys().next().value;
    if (this.#byRun.size > MAX_CELLS && oldest) this.#byRun.delete(oldest);
    return outputs.droppedDisplays === dropped;
  }

  runs(): Run[] {
    return [...this.#byRun.keys()];
  }

  /** Hands it out, once. */
  take(): LateOutput[] {
    const late = [...this.#byRun].map(([run, outputs]) => ({
      executionId: run.id,
      executionCount: run.executionCount,
      outputs: outputs.list(),
    }));
    this.#byRun.clear();
    return late;
  }
}
