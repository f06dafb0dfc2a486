import { CellEvents } from "../cell-events.ts";

export interface FlowControl {
  pause(): void;
  resume(): void;
}

/** A running cell. Pauses the process that reports its events while the consumer is slow. */
export class CellRun extends CellEvents {
  readonly cell: number;
  readonly #flow: FlowControl;

  constructor(cell: number, flow: FlowControl) {
    super();
    this.cell = cell;
    this.#flow = flow;
  }

  protected hold(held: boolean): void {
    if (held) this.#flow.pause();
    else this.#flow.resume();
  }
}
