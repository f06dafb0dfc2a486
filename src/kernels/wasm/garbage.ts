import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Shorter lines are young garbage, which V8 collects promptly by itself. */
const LARGE_CHARS = 1024 * 1024;
/** Total of large lines that triggers a collection. A line costs about three times its size: bytes, text, value. */
const MANY_CHARS = 16 * 1024 * 1024;
/** Delay after the last large line: the reply is sent by then, and its copies for the store are garbage, too. */
const QUIET_MS = 1_000;

/**
 * Makes V8 collect the garbage of a kernel's large lines. By default V8 lets old garbage grow with the heap and keeps
 * it until something allocates: a few pictures of 8 MB would cost an idle server 200 MB for as long as it runs. A
 * collection takes about 10 ms, less than reading the lines that trigger it.
 */
export class Garbage {
  #chars = 0;
  #timer: NodeJS.Timeout | undefined;

  /** Records that a line of this length was read. */
  note(lineChars: number): void {
    if (lineChars < LARGE_CHARS) return;
    this.#chars += lineChars;
    clearTimeout(this.#timer);
    if (this.#chars > MANY_CHARS) this.#collect();
    this.#timer = setTimeout(() => this.#collect(), QUIET_MS);
    this.#timer.unref();
  }

  #collect(): void {
    this.#chars = 0;
    collectGarbage();
  }
}

function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const gc: unknown = runInNewContext("globalThis.gc");
  setFlagsFromString("--no-expose-gc");
  if (typeof gc === "function") gc();
}
