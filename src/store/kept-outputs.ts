import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { open, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { blobName } from "./blob-name.ts";
import { ifThere, writing } from "./system-error.ts";

const BLOCK_BYTES = 4096;
/** The full text of one cell must not push out all else. */
const SPILL_SHARE = 4;

export interface KeptOutputsParts {
  folder: string;
  /** What all of it may take, with what lies beside it (`besidesBytes`). */
  maxBytes: number;
  besidesBytes: () => number;
}

/** Files with what a session's cells showed: the oldest give way when they take too much room. */
export class KeptOutputs {
  readonly folder: string;
  readonly #maxBytes: number;
  readonly #besidesBytes: () => number;
  /** By name, oldest first; known once something is to be written. */
  #sizes: Map<string, number> | undefined;
  #usedBytes = 0;
  #dropped = 0;
  #refused = 0;
  #tail: Promise<unknown> = Promise.resolve();

  constructor({ folder, maxBytes, besidesBytes }: KeptOutputsParts) {
    this.folder = folder;
    this.#maxBytes = maxBytes;
    this.#besidesBytes = besidesBytes;
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  /** Keeps bytes under a name made from them. Undefined: there is no room for them, whatever gave way. */
  put(bytes: Uint8Array, mimeType: string): Promise<string | undefined> {
    return this.#next(async () => {
      const name = blobName(bytes, mimeType);
      const sizes = await this.#measured();
      const isThere = sizes.has(name) && (await touch(this.path(name)));
      if (!isThere && !(await this.#makeRoom(taken(bytes.length)))) {
        this.#refused += 1;
        return undefined;
      }
      if (!isThere) await writing("an output", () => replaceFile(this.path(name), bytes));
      this.#note(name, bytes.length);
      return name;
    });
  }

  async read(name: string): Promise<Uint8Array | undefined> {
    const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0);
    const handle = await ifThere(open(this.path(name), flags));
    try {
      return await handle?.readFile();
    } finally {
      await handle?.close();
    }
  }

  /** How long a text may get that is written while it comes. */
  spillLimit(maxBytes: number): number {
    return Math.min(maxBytes, Math.floor(this.#maxBytes / SPILL_SHARE));
  }

  /** Such a text has been written: others give way to it. */
  spilled(name: string): Promise<void> {
    return this.#next(async () => {
      await this.#measured();
      const size = await sizeOf(this.path(name));
      if (size === undefined) return;
      this.#note(name, size);
      await this.#makeRoom(0);
    });
  }

  /** What had to give way or was not kept since this was last asked, as sentences. */
  async takeNotices(): Promise<string[]> {
    await this.#tail;
    const [dropped, refused] = [this.#dropped, this.#refused];
    this.#dropped = this.#refused = 0;
    const limit = `what is kept of a session's outputs may take ${Math.round(this.#maxBytes / 1024 / 1024)} MB (--disk-mb).`;
    return [
      ...(dropped > 0 ? [`Older outputs of this session were removed (${dropped}): ${limit}`] : []),
      ...(refused > 0 ? [`Outputs of this cell were not kept (${refused}): ${limit}`] : []),
    ];
  }

  async #makeRoom(bytes: number): Promise<boolean> {
    const sizes = await this.#measured();
    const limit = this.#maxBytes - this.#besidesBytes();
    if (bytes > limit) return false;
    for (const [name, size] of sizes) {
      if (this.#usedBytes + bytes <= limit) break;
      await rm(this.path(name), { force: true });
      sizes.delete(name);
      this.#usedBytes -= size;
      this.#dropped += 1;
    }
    return true;
  }

  #note(name: string, bytes: number): void {
    const sizes = this.#sizes as Map<string, number>;
    this.#usedBytes += taken(bytes) - (sizes.get(name) ?? 0);
    // As the newest.
    sizes.delete(name);
    sizes.set(name, taken(bytes));
  }

  /** An earlier run of the program may have left some. */
  async #measured(): Promise<Map<string, number>> {
    if (this.#sizes) return this.#sizes;
    const names = (await ifThere(readdir(this.folder))) ?? [];
    const files: { name: string; bytes: number; mtimeMs: number }[] = [];
    for (const name of names) {
      const found = await stat(this.path(name)).catch(() => undefined);
      if (found?.isFile()) files.push({ name, bytes: taken(found.size), mtimeMs: found.mtimeMs });
    }
    files.sort((one, other) => one.mtimeMs - other.mtimeMs);
    this.#usedBytes = files.reduce((sum, { bytes }) => sum + bytes, 0);
    this.#sizes = new Map(files.map(({ name, bytes }) => [name, bytes]));
    return this.#sizes;
  }

  #next<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#tail.then(work);
    this.#tail = turn.catch(() => {});
    return turn;
  }
}

function taken(bytes: number): number {
  return Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
}

async function sizeOf(path: string): Promise<number | undefined> {
  return (await ifThere(stat(path)))?.size;
}

/** False: it is not there any more. */
async function touch(path: string): Promise<boolean> {
  const now = new Date();
  return utimes(path, now, now).then(
    () => true,
    () => false,
  );
}

/** At every moment the file is either the old one or the new one, whole. */
export async function replaceFile(path: string, bytes: Uint8Array): Promise<void> {
  const temporary = join(path, "..", `.${randomUUID()}.tmp`);
  try {
    await writeFile(temporary, bytes, { mode: 0o600, flag: "wx" });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
