/** So many at a time; whoever comes later waits, in order. */
export class Places {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  /** Resolves when there is a place, with what gives it back. Rejects if the caller gives up first. */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#free > 0) this.#free -= 1;
    else await this.#turn(signal);
    let isGiven = false;
    return () => {
      if (!isGiven) this.#give();
      isGiven = true;
    };
  }

  /** The place goes to the next one directly, so that nobody who comes now can take it. */
  #give(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free += 1;
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const giveUp = () => {
        this.#waiting.splice(this.#waiting.indexOf(go), 1);
        reject(signal.reason);
      };
      const go = () => {
        signal.removeEventListener("abort", giveUp);
        resolve();
      };
      this.#waiting.push(go);
      signal.addEventListener("abort", giveUp, { once: true });
    });
  }
}
