import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { decodeFrames, type JupyterMessage } from "./message.ts";

/** As much as a kernel writes (see host/journal.py), and a message to spare. User code can write to the file as well. */
const MAX_JOURNAL_BYTES = 80 * 1024 * 1024;
/** A message has seven frames and those of its buffers; fewer make no sense. */
const MIN_FRAMES = 6;
const MAX_FRAMES = 1_000;
/** A kernel signs all of them. After so many that are not signed, what follows is user code's, made to keep us busy. */
const MAX_STRAYS = 100;
const PIECE_BYTES = 1024 * 1024;
const LENGTH_BYTES = 4;

/**
 * What a kernel showed since its newest cell began, as it kept it: `[u32 count]([u32 length][frame])*` a message. Ends
 * where the file does, or the sense in it; a message that is just being written is not among them. Those that are not
 * signed with the key are left out.
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

/** Reads a file from its beginning, a piece at a time, up to the limit. */
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

  /** Undefined when there are not as many. */
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
