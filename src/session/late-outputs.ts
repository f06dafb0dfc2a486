import type { ExecutionEvent, Output } from "../execution.ts";
import { Outputs } from "./outputs.ts";

/** What is left of a cell for whoever tells of it: not its outputs. */
export interface CellLabel {
  executionId: string;
  executionCount: number | null;
}

/** Output of a finished cell that came after its end, from something it left running. */
export interface LateOutput extends CellLabel {
  outputs: Output[];
}

/** Cells whose late output is kept until somebody asks; a task that prints for ever must not pile up. */
const MAX_CELLS = 20;

/** Far less than what a cell may show: nobody waits for it, and there may be many. */
const limits = { sideChars: 16_000, displays: 10, displayChars: 1_000_000 };

/** Late output that nobody has been shown yet, by the cell it belongs to. */
export class LateOutputs {
  readonly #byCell = new Map<string, { label: CellLabel; outputs: Outputs }>();

  /** False if it was too much to keep. */
  add(label: CellLabel, event: ExecutionEvent): boolean {
    const id = label.executionId;
    const { outputs } = this.#byCell.get(id) ?? { outputs: new Outputs(limits) };
    const dropped = outputs.droppedDisplays;
    outputs.add(event);
    this.#byCell.set(id, { label, outputs });
    const oldest = this.#byCell.keys().next().value;
    if (this.#byCell.size > MAX_CELLS && oldest) this.#byCell.delete(oldest);
    return outputs.droppedDisplays === dropped;
  }

  /** The cells that it belongs to. */
  ids(): string[] {
    return [...this.#byCell.keys()];
  }

  /** Hands it out, once. */
  take(): LateOutput[] {
    const late = [...this.#byCell.values()].map(({ label, outputs }) => ({ ...label, outputs: outputs.list() }));
    this.#byCell.clear();
    return late;
  }
}
