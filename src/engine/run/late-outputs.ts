import type { ExecutionEvent, Output } from "../../execution.ts";
import { Outputs } from "./outputs.ts";

/** Identifies a cell without holding its outputs in memory. */
export interface CellLabel {
  executionId: string;
  executionCount: number | null;
}

/** Output that arrived after its cell ended, such as from a background thread. */
export interface LateOutput extends CellLabel {
  outputs: Output[];
}

/** Cells whose unread late output is kept; a background task that prints forever must not fill the memory. */
const MAX_CELLS = 20;

/** Far less than a cell may show: no call waits for late output, and many cells may have some. */
const limits = { sideChars: 16_000, displays: 10, displayChars: 1_000_000 };

/** Late output that no reply has shown yet, by cell. */
export class LateOutputs {
  readonly #byCell = new Map<string, { label: CellLabel; outputs: Outputs }>();

  /** False if it exceeded the limits and was dropped. */
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

  /** Ids of cells with unread late output. */
  ids(): string[] {
    return [...this.#byCell.keys()];
  }

  /** Returns the late output and clears it. */
  take(): LateOutput[] {
    const late = [...this.#byCell.values()].map(({ label, outputs }) => ({ ...label, outputs: outputs.list() }));
    this.#byCell.clear();
    return late;
  }
}
