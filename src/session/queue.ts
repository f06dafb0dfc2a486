import { CellwrightError } from "../errors.ts";
import type { Variables } from "../execution.ts";
import { JsonText } from "../json-text.ts";

/** Cells of one session that wait or run: far more than a client sends at once, and each of them takes memory. */
const MAX_CELLS = 128;
/** Code and variables of all of them. A cell that has nothing before it may be as large as a request may be. */
const MAX_CHARS = 16 * 1024 * 1024;
/** The same for all sessions together. */
const MAX_TOTAL_CHARS = 256 * 1024 * 1024;
/** Those that are this small never are what fills the memory, and always get in. */
const SMALL_CHARS = 64 * 1024;

/** What the cells of all sessions hold that wait or run. */
export class QueueTotal {
  chars = 0;
}

/** Counts what a session's cells hold while they wait and run, and refuses what would be too much. */
export class CellQueue {
  readonly #sessionId: string;
  readonly #total: QueueTotal;
  #cells = 0;
  #chars = 0;

  constructor(sessionId: string, total: QueueTotal) {
    this.#sessionId = sessionId;
    this.#total = total;
  }

  /** Throws `kernel_busy` when there is no room for it; returns what makes the room free again. */
  admit(code: string, variables: Variables = {}): () => void {
    const chars = code.length + charsOf(variables);
    if (this.#cells >= MAX_CELLS) throw this.#full(`${MAX_CELLS} cells that wait or run`);
    if (this.#cells > 0 && chars > SMALL_CHARS && this.#chars + chars > MAX_CHARS) {
      throw this.#full(`cells that wait or run with ${megabytes(this.#chars)} MB of code and variables`);
    }
    if (chars > SMALL_CHARS && this.#total.chars + chars > MAX_TOTAL_CHARS) {
      throw new CellwrightError(
        "kernel_busy",
        `All sessions together have cells that wait or run with ${megabytes(this.#total.chars)} MB of code and variables.`,
        { hint: "Try again when some have ended, or put the data into a file with write_file." },
      );
    }
    this.#cells += 1;
    this.#chars += chars;
    this.#total.chars += chars;
    return () => {
      this.#cells -= 1;
      this.#chars -= chars;
      this.#total.chars -= chars;
    };
  }

  #full(what: string): CellwrightError {
    return new CellwrightError("kernel_busy", `Session \`${this.#sessionId}\` already has ${what}.`);
  }
}

function charsOf(variables: Variables): number {
  let chars = 0;
  for (const [name, value] of Object.entries(variables)) {
    chars += name.length;
    if (typeof value === "string" || value instanceof Uint8Array) chars += value.length;
    else if (value instanceof JsonText) chars += value.text.length;
  }
  return chars;
}

function megabytes(chars: number): number {
  return Math.round(chars / 1024 / 1024);
}
