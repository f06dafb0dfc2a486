import { charsOf, type ExecutionEvent } from "../execution.ts";

/** Back-pressure: buffered characters at which the kernel is paused, and at which it resumes. */
const HIGH_WATER_CHARS = 4 * 1024 * 1024;
const LOW_WATER_CHARS = 1024 * 1024;

/** Buffer of one cell's events, between the kernel that produces them and the caller that iterates over them. */
export abstract class CellEvents {
  #events: ExecutionEvent[] = [];
  #waitingChars = 0;
  #wake: (() => void) | undefined;
  #ended = false;
  #failure: Error | undefined;
  #abandoned = false;
  #isHeld = false;

  /** Pauses or resumes the kernel's output. */
  protected abstract hold(held: boolean): void;

  get ended(): boolean {
    return this.#ended;
  }

  push(event: ExecutionEvent): void {
    if (this.#ended) return;
    if (event.type === "done") this.#ended = true;
    if (this.#abandoned) return;
    this.#events.push(event);
    this.#waitingChars += charsOf(event);
    if (this.#waitingChars > HIGH_WATER_CHARS) this.#setHeld(true);
    this.#wake?.();
  }

  /** The kernel failed: the iteration throws after the events received so far. */
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
          this.#waitingChars -= charsOf(event);
          if (this.#waitingChars < LOW_WATER_CHARS) this.#setHeld(false);
        }
        if (this.#events.length > 0) continue;
        if (this.#failure) throw this.#failure;
        if (this.#ended) return;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      // A caller that stopped iterating must not block the kernel forever.
      this.#abandoned = true;
      this.#events = [];
      this.#setHeld(false);
    }
  }

  #setHeld(held: boolean): void {
    if (held === this.#isHeld) return;
    this.#isHeld = held;
    this.hold(held);
  }
}
