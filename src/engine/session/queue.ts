import { CellwrightError } from "../../errors.ts";
import type { Variables } from "../../execution.ts";
import { JsonText } from "../../json-text.ts";

/** Queued and running cells of one session: far more than a client sends at once, and each takes memory. */
const MAX_CELLS = 128;
/** Code and variables of all of them. A cell that does not queue behind another may be as large as a request. */
const MAX_CHARS = 16 * 1024 * 1024;
/** The same for all sessions together. */
const MAX_TOTAL_CHARS = 256 * 1024 * 1024;
/** Cells up to this size do not fill the memory and are always accepted. */
const SMALL_CHARS = 64 * 1024;

/** Characters held by queued and running cells of all sessions. */
export class QueueTotal {
  chars = 0;
}

/** Bounds the memory of a session's queued and running cells: back-pressure for callers. */
export class CellQueue {
  readonly #sessionId: string;
  readonly #total: QueueTotal;
  #cells = 0;
  #chars = 0;

  constructor(sessionId: string, total: QueueTotal) {
    this.#sessionId = sessionId;
    this.#total = total;
  }

  /** Throws `kernel_busy` when the queue is full; returns the function that releases the reservation. */
  admit(code: string, variables: Variables = {}): () => void {
    const chars = code.length + charsOf(variables);
    if (this.#cells >= MAX_CELLS) throw this.#full(`${MAX_CELLS} queued or running cells`);
    if (this.#cells > 0 && chars > SMALL_CHARS && this.#chars + chars > MAX_CHARS) {
      throw this.#full(`queued or running cells with ${megabytes(this.#chars)} MB of code and variables`);
    }
    if (chars > SMALL_CHARS && this.#total.chars + chars > MAX_TOTAL_CHARS) {
      throw new CellwrightError(
        "kernel_busy",
        `Queued and running cells of all sessions hold ${megabytes(this.#total.chars)} MB of code and variables.`,
        { hint: "Retry when some have ended, or put the data into a file with write_file." },
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
