import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Shorter lines are young garbage, which V8 collects by itself and at once. */
const LARGE_CHARS = 1024 * 1024;
/** So much of large lines is collected at once. Each costs its size about three times: as bytes, text and value. */
const MANY_CHARS = 16 * 1024 * 1024;
/** When a flood is over and its reply is sent; by then what was made of it for the store is garbage, too. */
const QUIET_MS = 1_000;

/**
 * Has V8 collect what large lines of one kernel left behind. By itself it lets old garbage grow with the heap and then
 * keeps it until somebody allocates: a few pictures of 8 MB would cost an idle server 200 MB for as long as it runs.
 * A collection takes some 10 ms, less than reading what made it due.
 */
export class Garbage {
  #chars = 0;
  #timer: NodeJS.Timeout | undefined;

  /** A line of so many characters was read. */
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
