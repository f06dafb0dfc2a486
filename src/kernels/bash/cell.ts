import { randomBytes } from "node:crypto";
import { CellEvents } from "../cell-events.ts";
import type { ExecuteOptions } from "../kernel.ts";
import type { CellPipes, StreamName } from "./output-pipes.ts";

/** One cell that the shell runs. */
export class Cell extends CellEvents {
  readonly number: number;
  readonly options: ExecuteOptions;
  /** The token that the shell reports at the end; each further request has a new one. */
  token = newToken();
  pipes: CellPipes | undefined;
  /** The shell has read the whole cell; before that it cannot be interrupted. */
  begun = false;
  interruptWanted = false;
  interruptSent = false;
  /** Its exit code. Set before the cell is over if an interrupt may still be pending. */
  status: number | undefined;

  constructor(number: number, options: ExecuteOptions) {
    super();
    this.number = number;
    this.options = options;
  }

  renewToken(): void {
    this.token = newToken();
  }

  text(name: StreamName, text: string): void {
    this.push({ type: "stream", name, text });
  }

  protected hold(held: boolean): void {
    if (held) this.pipes?.pause();
    else this.pipes?.resume();
  }
}

function newToken(): string {
  return randomBytes(16).toString("hex");
}
