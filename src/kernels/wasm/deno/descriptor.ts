import { type kinds, MAX_RECORD_BYTES, type RingWriter } from "./ring.ts";

/** Limit per cell, as in `output.py`. The rest is dropped. */
const MAX_CELL_BYTES = 64 * 1024 * 1024;
/** UTF-8 takes at most three bytes per UTF-16 code unit. */
const MAX_PIECE_CHARS = Math.floor(MAX_RECORD_BYTES / 3);

/**
 * Python's file descriptor 1 or 2: output of `os.write`, C libraries and fatal errors. `sys.stdout` does not use it.
 * Python cannot be called from here, because it is in the middle of a system call.
 */
export class Descriptor {
  readonly #kind: typeof kinds.stdout | typeof kinds.stderr;
  readonly #ring: RingWriter;
  readonly #encoder = new TextEncoder();
  #decoder = new TextDecoder();
  #cell = 0;
  #leftBytes = 0;

  constructor(kind: typeof kinds.stdout | typeof kinds.stderr, ring: RingWriter) {
    this.#kind = kind;
    this.#ring = ring;
  }

  begin(cell: number): void {
    this.#cell = cell;
    this.#decoder = new TextDecoder();
    this.#leftBytes = MAX_CELL_BYTES;
  }

  write(bytes: Uint8Array): number {
    this.#leftBytes -= bytes.length;
    // Decoded before it is sent: a character may be split over two writes, and a record holds whole characters only.
    const text = this.#leftBytes < 0 ? "" : this.#decoder.decode(bytes, { stream: true });
    for (let start = 0; start < text.length; ) {
      const end = Math.min(start + MAX_PIECE_CHARS, text.length);
      const whole = end < text.length && isHighSurrogate(text.charCodeAt(end - 1)) ? end - 1 : end;
      this.#ring.write(this.#kind, this.#cell, this.#encoder.encode(text.slice(start, whole)));
      start = whole;
    }
    return bytes.length;
  }
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00;
}
