const NEWLINE = 10;

/** Buffer size that is kept between lines; a larger buffer is released when its line ends. */
const KEPT_BYTES = 256 * 1024;

/**
 * Splits a byte stream into lines. An unfinished line is buffered as bytes and decoded once: as many small strings it
 * would stay in V8's old space until the next major collection, and a line of 8 MB would cost four times that.
 */
export class LineSplitter {
  readonly #maxBytes: number;
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #held = new Uint8Array(0);
  #heldBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The lines that end in this chunk. Throws when a line grows beyond the limit. */
  push(chunk: Uint8Array): string[] {
    const lastEnd = chunk.lastIndexOf(NEWLINE);
    if (lastEnd < 0) {
      this.#hold(chunk);
      return [];
    }
    let lines: string[] = [];
    let start = 0;
    if (this.#heldBytes > 0) {
      const firstEnd = chunk.indexOf(NEWLINE);
      this.#hold(chunk.subarray(0, firstEnd));
      lines.push(this.#takeHeld());
      start = firstEnd + 1;
    }
    // Most lines are short: all complete ones in this chunk are decoded together.
    if (start <= lastEnd) lines = lines.concat(this.#decoder.decode(chunk.subarray(start, lastEnd)).split("\n"));
    this.#hold(chunk.subarray(lastEnd + 1));
    return lines;
  }

  #hold(bytes: Uint8Array): void {
    const size = this.#heldBytes + bytes.length;
    if (size > this.#maxBytes) throw new Error(`a line is longer than ${this.#maxBytes} bytes`);
    if (size > this.#held.length) {
      const larger = new Uint8Array(Math.max(KEPT_BYTES, size, Math.min(2 * this.#held.length, this.#maxBytes)));
      larger.set(this.#held.subarray(0, this.#heldBytes));
      this.#held = larger;
    }
    this.#held.set(bytes, this.#heldBytes);
    this.#heldBytes = size;
  }

  #takeHeld(): string {
    const line = this.#decoder.decode(this.#held.subarray(0, this.#heldBytes));
    this.#heldBytes = 0;
    if (this.#held.length > KEPT_BYTES) this.#held = new Uint8Array(0);
    return line;
  }
}
