import type { ExecutionEvent, Output } from "../execution.ts";
import { defaultOutputLimits, Outputs } from "./outputs.ts";
import type { Run } from "./run.ts";

/** Output of a finished cell that came after its end, from something it left running. */
export interface LateOutput {
  executionId: string;
  executionCount: number | null;
  outputs: Output[];
}

/** Cells whose late output is kept until somebody asks; a task that prints for ever must not pile up. */
const MAX_CELLS = 20;

/** Late output that nobody has been shown yet, by the cell it belongs to. */
export class LateOutputs {
  readonly #byRun = new Map<Run, Outputs>();

  add(run: Run, event: ExecutionEvent): void {
    const outputs = this.#byRun.get(run) ?? new Outputs(defaultOutputLimits);
    outputs.add(event);
    this.#byRun.set(run, outputs);
    const oldest = this.#byRun.keys().next().value;
    if (this.#byRun.size > MAX_CELLS && oldest) this.#byRun.delete(oldest);
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
