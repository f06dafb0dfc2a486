import { randomBytes } from "node:crypto";
import type { ExecutionEvent } from "../../execution.ts";
import type { ExecuteOptions } from "../kernel.ts";
import type { CellPipes, StreamName } from "./output-pipes.ts";

/** Characters waiting for a slow reader before the shell is held back, and when it may go on. */
const HIGH_WATER_CHARS = 4 * 1024 * 1024;
const LOW_WATER_CHARS = 1024 * 1024;

/** One cell on its way through the shell, and its events on their way to the caller. */
export class Cell {
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
  #events: ExecutionEvent[] = [];
  #waitingChars = 0;
  #wake: (() => void) | undefined;
  #ended = false;
  #failure: Error | undefined;
  #abandoned = false;
  #isHeld = false;

  constructor(number: number, options: ExecuteOptions) {
    this.number = number;
    this.options = options;
  }

  get ended(): boolean {
    return this.#ended;
  }

  renewToken(): void {
    this.token = newToken();
  }

  push(event: ExecutionEvent): void {
    if (this.#ended) return;
    if (event.type === "done") this.#ended = true;
    if (!this.#abandoned) this.#events.push(event);
    this.#wake?.();
  }

  text(name: StreamName, text: string): void {
    if (this.#ended || this.#abandoned) return;
    this.#waitingChars += text.length;
    if (this.#waitingChars > HIGH_WATER_CHARS) this.#hold();
    this.push({ type: "stream", name, text });
  }

  /** The shell is gone: the iteration ends by throwing, after the events that came before. */
  fail(error: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#failure = error;
    this.#wake?.();
  }

  async *events(): AsyncGenerator<ExecutionEvent, void> {
    try {
      for (;;) {
        for (const event of this.#events.splice(0)) {
          yield event;
          if (event.type === "stream") this.#waitingChars -= event.text.length;
          if (this.#waitingChars < LOW_WATER_CHARS) this.#release();
        }
        if (this.#events.length > 0) continue;
        if (this.#failure) throw this.#failure;
        if (this.#ended) return;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      // Whoever stopped listening must not hold the shell back for ever.
      this.#abandoned = true;
      this.#events = [];
      this.#release();
    }
  }

  #hold(): void {
    this.#isHeld = true;
    this.pipes?.pause();
  }

  #release(): void {
    if (this.#isHeld) this.pipes?.resume();
    this.#isHeld = false;
  }
}

function newToken(): string {
  return randomBytes(16).toString("hex");
}
