/** A fair semaphore: waiters proceed in order. */
export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  /** Resolves with a release function. Rejects if the caller aborts first. */
  async acquire(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free -= 1;
    else await this.#turn(signal);
    let isGiven = false;
    return () => {
      if (!isGiven) this.#give();
      isGiven = true;
    };
  }

  /** Hands the permit directly to the next waiter, so that a new caller cannot take it. */
  #give(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free += 1;
  }

  #turn(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const giveUp = () => {
        this.#waiting.splice(this.#waiting.indexOf(go), 1);
        reject(signal?.reason);
      };
      const go = () => {
        signal?.removeEventListener("abort", giveUp);
        resolve();
      };
      this.#waiting.push(go);
      signal?.addEventListener("abort", giveUp, { once: true });
    });
  }
}
