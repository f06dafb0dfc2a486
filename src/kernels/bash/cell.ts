import { randomBytes } from "node:crypto";
import { CellEvents } from "../cell-events.ts";
import type { ExecuteOptions } from "../kernel.ts";
import type { CellPipes, StreamName } from "./output-pipes.ts";

/** One cell on its way through the shell. */
export class Cell extends CellEvents {
  readonly number: number;
  readonly options: ExecuteOptions;
  /** What the shell reports at the end. A new one is a new question. */
  token = newToken();
  pipes: CellPipes | undefined;
  /** The shell has read all of it: only now can it be interrupted. */
  begun = false;
  interruptWanted = false;
  interruptSent = false;
  /** Its exit code, known before it is over when an interrupt may still be on its way. */
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
