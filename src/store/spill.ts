import { closeSync, constants, fstatSync, mkdirSync, openSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import type { Spill } from "./store.ts";

/** Write buffer: fewer system calls for a cell that prints character by character. */
const CHUNK_CHARS = 65_536;

/**
 * A text file that grows while a cell prints. Writes are synchronous: a cell can print faster than the disk writes, and
 * blocking keeps memory flat. A disk error ends the file, not the cell.
 */
export class FileSpill implements Spill {
  readonly uri: string;
  readonly #path: string;
  readonly #maxBytes: number;
  readonly #onEnd: (error?: unknown) => void;
  #text = "";
  #fd: number | undefined;
  #leftBytes: number;
  #ended = false;

  constructor(options: { uri: string; path: string; maxBytes: number; onEnd: (error?: unknown) => void }) {
    this.uri = options.uri;
    this.#path = options.path;
    this.#maxBytes = options.maxBytes;
    this.#leftBytes = options.maxBytes;
    this.#onEnd = options.onEnd;
  }

  write(text: string): void {
    if (this.#ended || this.#leftBytes === 0) return;
    this.#text += text;
    if (this.#text.length >= CHUNK_CHARS) this.flush();
  }

  /** Writes everything so far, except the first half of an incomplete surrogate pair. */
  flush(): void {
    if (this.#ended || this.#text === "") return;
    const end = isHighSurrogate(this.#text.at(-1)) ? this.#text.length - 1 : this.#text.length;
    const bytes = Buffer.from(this.#text.slice(0, end));
    this.#text = this.#text.slice(end);
    try {
      this.#fd ??= this.#open();
      this.#put(bytes);
    } catch (error) {
      this.#end(error);
    }
  }

  async close(): Promise<void> {
    if (this.#ended) return;
    this.flush();
    this.#end();
  }

  #open(): number {
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND | (constants.O_NOFOLLOW ?? 0);
    const fd = openSync(this.#path, flags, 0o600);
    this.#leftBytes = Math.max(0, this.#maxBytes - fstatSync(fd).size);
    return fd;
  }

  #put(bytes: Buffer): void {
    const whole = bytes.subarray(0, characterEnd(bytes, this.#leftBytes));
    for (let written = 0; written < whole.length; ) {
      written += writeSync(this.#fd as number, whole, written);
    }
    // After a dropped part everything is dropped: the file is a prefix, without holes.
    this.#leftBytes = whole.length < bytes.length ? 0 : this.#leftBytes - whole.length;
  }

  #end(error?: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#text = "";
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#onEnd(error);
  }
}

/** The end of the last complete character that fits. */
export function characterEnd(bytes: Uint8Array, maxBytes: number): number {
  if (bytes.length <= maxBytes) return bytes.length;
  let end = maxBytes;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return end;
}

function isHighSurrogate(character: string | undefined): boolean {
  return character !== undefined && character >= "\ud800" && character <= "\udbff";
}
