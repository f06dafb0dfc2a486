import { CellEvents } from "../cell-events.ts";

export interface FlowControl {
  pause(): void;
  resume(): void;
}

/** One cell on its way through the process that reports its events. */
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
