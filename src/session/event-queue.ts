import type { ExecutionEvent } from "../execution.ts";

/** Text that may wait for a slow reader. Past it, text is dropped and marked: a flood must not fill our memory. */
const MAX_WAITING_CHARS = 1_000_000;

/** Events on their way to one reader. */
export class EventQueue implements AsyncIterable<ExecutionEvent> {
  readonly #onReturn: () => void;
  #waiting: ExecutionEvent[] = [];
  #waitingChars = 0;
  #dropped = false;
  #ended = false;
  #wake: (() => void) | undefined;

  constructor(onReturn: () => void) {
    this.#onReturn = onReturn;
  }

  push(event: ExecutionEvent): void {
    if (event.type === "stream") {
      if (this.#waitingChars > MAX_WAITING_CHARS) {
        if (!this.#dropped) this.#waiting.push({ ...event, text: "\n[output left out: the reader was too slow]\n" });
        this.#dropped = true;
        return;
      }
      this.#waitingChars += event.text.length;
    }
    this.#waiting.push(event);
    this.#wake?.();
  }

  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ExecutionEvent> {
    try {
      while (true) {
        const batch = this.#waiting;
        this.#waiting = [];
        this.#waitingChars = 0;
        this.#dropped = false;
        yield* batch;
        if (this.#waiting.length > 0) continue;
        if (this.#ended) return;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      this.#onReturn();
    }
  }
}
