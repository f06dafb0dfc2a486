import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { decodeFrames, type JupyterMessage } from "./message.ts";

/** The maximum that a kernel writes (python/output/journal.py) and a margin. User code can write to the file, too. */
const MAX_JOURNAL_BYTES = 80 * 1024 * 1024;
/** Delimiter, signature and four parts; a topic and buffers are optional. */
const MIN_FRAMES = 6;
const MAX_FRAMES = 1_000;
/** A kernel signs all its messages. This many unsigned ones come from user code, written to keep the server busy. */
const MAX_STRAYS = 100;
const PIECE_BYTES = 1024 * 1024;
const LENGTH_BYTES = 4;

/**
 * Reads the kernel's journal: its output since the newest cell began. Each message is
 * `[u32 count]([u32 length][frame])*`. Stops at the end of the file, at an incomplete message, or at invalid data.
 * Skips messages that are not signed with the key.
 */
export async function* readJournal(file: string, key: string): AsyncGenerator<JupyterMessage> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    if (!(await handle.stat()).isFile()) return;
    const reader = new Reader(handle);
    for (let strays = 0; strays <= MAX_STRAYS; ) {
      const frames = await readFrames(reader);
      if (!frames) return;
      const message = decodeFrames("iopub", frames, key);
      if (message) yield message;
      else strays += 1;
    }
  } finally {
    await handle.close();
  }
}

async function readFrames(reader: Reader): Promise<Uint8Array[] | undefined> {
  const count = await reader.number();
  if (count === undefined || count < MIN_FRAMES || count > MAX_FRAMES) return undefined;
  const frames: Uint8Array[] = [];
  for (let index = 0; index < count; index += 1) {
    const length = await reader.number();
    const frame = length === undefined ? undefined : await reader.bytes(length);
    if (!frame) return undefined;
    frames.push(frame);
  }
  return frames;
}

/** Reads a file in pieces, up to the limit. */
class Reader {
  readonly #handle: FileHandle;
  #left = MAX_JOURNAL_BYTES;
  #piece: Buffer = Buffer.alloc(0);

  constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  async number(): Promise<number | undefined> {
    return (await this.bytes(LENGTH_BYTES))?.readUInt32BE();
  }

  /** Undefined if fewer bytes are left. */
  async bytes(length: number): Promise<Buffer | undefined> {
    if (length > this.#piece.length && !(await this.#fill(length))) return undefined;
    const taken = this.#piece.subarray(0, length);
    this.#piece = this.#piece.subarray(length);
    return taken;
  }

  async #fill(length: number): Promise<boolean> {
    if (length - this.#piece.length > this.#left) return false;
    const parts = [this.#piece];
    let size = this.#piece.length;
    while (size < length) {
      const part = Buffer.allocUnsafe(Math.min(PIECE_BYTES, this.#left));
      const { bytesRead } = await this.#handle.read(part);
      if (bytesRead === 0) return false;
      this.#left -= bytesRead;
      parts.push(part.subarray(0, bytesRead));
      size += bytesRead;
    }
    this.#piece = Buffer.concat(parts);
    return true;
  }
}
