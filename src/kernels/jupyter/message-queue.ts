import type { JupyterMessage } from "./message.ts";

/** Messages between those who receive them and the one who reads them. */
export class MessageQueue {
  #messages: JupyterMessage[] = [];
  #wake: (() => void) | undefined;
  #ended = false;

  push(message: JupyterMessage): void {
    this.#messages.push(message);
    this.#wake?.();
  }

  /** Readers get what is there, and then end. */
  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  /** A reader that stops in the middle loses nothing for the next one. */
  read(): AsyncIterableIterator<JupyterMessage> {
    let stopped = false;
    const next = async (): Promise<IteratorResult<JupyterMessage, undefined>> => {
      for (;;) {
        if (stopped) return { done: true, value: undefined };
        const value = this.#messages.shift();
        if (value) return { done: false, value };
        if (this.#ended) return { done: true, value: undefined };
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    };
    const iterator: AsyncIterableIterator<JupyterMessage> = {
      next,
      return: async () => {
        stopped = true;
        this.#wake?.();
        return { done: true, value: undefined };
      },
      [Symbol.asyncIterator]: () => iterator,
    };
    return iterator;
  }
}
