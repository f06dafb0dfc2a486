/**
 * Interrupts from the supervisor to Python: a counter in shared memory, which each side compares with its own.
 *
 * Pyodide reads a buffer and then resets it to zero, in two steps. In a plain buffer, an interrupt between them would
 * be lost. Here the second step acknowledges only what the first one has read.
 */

const SIGINT = 2;

/** Words of the shared memory: the number of interrupts sent, and the target cell of the newest. */
const COUNT = 0;
const CELL = 1;

/** The supervisor's side. Trusts nothing in the shared memory, which user code can reach. */
export class InterruptSender {
  readonly shared = new SharedArrayBuffer(8);
  readonly #words = new Int32Array(this.shared);
  #sent = 0;

  /** The number of interrupts sent so far, which is also the number of the newest. */
  get sent(): number {
    return this.#sent;
  }

  send(cell: number): void {
    this.#sent += 1;
    Atomics.store(this.#words, CELL, cell);
    Atomics.store(this.#words, COUNT, this.#sent);
    // Wakes Python if it sleeps.
    Atomics.notify(this.#words, COUNT);
  }
}

/** The worker's side. Looks to Pyodide like an interrupt buffer. */
export class InterruptReceiver {
  readonly #words: Int32Array;
  #read = 0;
  #heard = 0;

  constructor(shared: SharedArrayBuffer) {
    this.#words = new Int32Array(shared);
  }

  get 0(): number {
    // Not atomic, like Pyodide's own buffer: it is polled constantly and sees the newest count soon enough.
    this.#read = this.#words[COUNT] ?? 0;
    return this.#read === this.#heard ? 0 : SIGINT;
  }

  set 0(_zero: number) {
    this.#heard = this.#read;
  }

  /** The target cell of the newest interrupt. */
  get cell(): number {
    return Atomics.load(this.#words, CELL);
  }

  /** The number of the newest interrupt that Python has acknowledged. */
  get heard(): number {
    return this.#heard;
  }

  /** Drops interrupts up to this number: their cells have ended. */
  forget(sent: number): void {
    this.#heard = sent;
  }

  /** Whether an interrupt is pending; acknowledges it. */
  take(): boolean {
    const isThere = this[0] !== 0;
    this[0] = 0;
    return isThere;
  }

  /** Python could not handle it at this point: deliver it again. */
  repeat(): void {
    this.#heard -= 1;
  }

  /** Blocks the thread until an interrupt arrives or the time is over. */
  wait(ms: number): void {
    Atomics.wait(this.#words, COUNT, this.#heard, ms);
  }
}
