/** Cuts a stream of bytes into lines, holding on to a character or a line that is split between two chunks. */
export class LineSplitter {
  readonly #maxChars: number;
  readonly #decoder = new TextDecoder();
  #parts: string[] = [];
  #chars = 0;

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  /** The lines that end in this chunk. Throws when a line grows beyond the limit. */
  push(chunk: Uint8Array): string[] {
    const pieces = this.#decoder.decode(chunk, { stream: true }).split("\n");
    const lines: string[] = [];
    for (const [index, piece] of pieces.entries()) {
      this.#chars += piece.length;
      if (this.#chars > this.#maxChars) throw new Error(`a line is longer than ${this.#maxChars} characters`);
      this.#parts.push(piece);
      if (index === pieces.length - 1) break;
      lines.push(this.#parts.join(""));
      this.#parts = [];
      this.#chars = 0;
    }
    return lines;
  }
}
