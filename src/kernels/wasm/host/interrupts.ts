/**
 * Interrupts on their way from the supervisor to Python: a count in shared memory, which each side compares with its own.
 *
 * Pyodide asks a buffer whether there is one and then sets it to zero, in two steps. In a plain buffer an interrupt that
 * comes between them is wiped out unheard. Here the second step says only that what was read has been heard.
 */

const SIGINT = 2;

/** The supervisor's side. It believes nothing in the shared memory, which user code can reach. */
export class InterruptSender {
  readonly shared = new SharedArrayBuffer(4);
  readonly #word = new Int32Array(this.shared);
  #sent = 0;

  /** How many there were until now. */
  get sent(): number {
    return this.#sent;
  }

  send(): void {
    this.#sent = (this.#sent + 1) | 0;
    Atomics.store(this.#word, 0, this.#sent);
  }
}

/** The worker's side, in the shape of the buffer that Pyodide looks at. */
export class InterruptReceiver {
  readonly #word: Int32Array;
  #read = 0;
  #heard = 0;

  constructor(shared: SharedArrayBuffer) {
    this.#word = new Int32Array(shared);
  }

  get 0(): number {
    // A plain read, as of Pyodide's own buffer: it is asked all the time, and sees the newest count soon enough.
    this.#read = this.#word[0] ?? 0;
    return this.#read === this.#heard ? 0 : SIGINT;
  }

  set 0(_zero: number) {
    this.#heard = this.#read;
  }

  /** Those up to this count were for cells that are over. */
  forget(sent: number): void {
    this.#heard = sent;
  }

  /** Whether there is one; it is heard by this. */
  take(): boolean {
    const isThere = this[0] !== 0;
    this[0] = 0;
    return isThere;
  }
}
