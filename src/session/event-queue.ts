import type { ExecutionEvent } from "../execution.ts";

/** What may wait for a slow reader. Past it, events are dropped and marked: a flood must not fill our memory. */
const MAX_WAITING_CHARS = 4_000_000;

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
    if (event.type !== "done" && this.#waitingChars > MAX_WAITING_CHARS) {
      const notice = "\n[output left out: the reader was too slow]\n";
      if (!this.#dropped) this.#waiting.push({ type: "stream", name: "stderr", text: notice });
      this.#dropped = true;
      return;
    }
    // Not exact, but of the right size: a picture counts with all its bytes.
    this.#waitingChars += event.type === "stream" ? event.text.length : JSON.stringify(event).length;
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
