import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { open, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ifExists, writing } from "../system-error.ts";
import { blobName } from "./blob-name.ts";

const BLOCK_BYTES = 4096;
/** One cell's full text may take this fraction of the limit, so that it does not evict everything else. */
const SPILL_SHARE = 4;

export interface KeptOutputsParts {
  folder: string;
  /** Limit for these files and what is stored beside them (`besidesBytes`). */
  maxBytes: number;
  besidesBytes: () => number;
}

/** Files with the outputs of a session's cells. The oldest are evicted when they exceed the limit. */
export class KeptOutputs {
  readonly folder: string;
  readonly #maxBytes: number;
  readonly #besidesBytes: () => number;
  /** By name, oldest first; loaded before the first write. */
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

  /** Keeps bytes under a name made from their hash. Undefined: they do not fit, even after eviction. */
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
    const handle = await ifExists(open(this.path(name), flags));
    try {
      return await handle?.readFile();
    } finally {
      await handle?.close();
    }
  }

  /** Size limit of a text that is written while it arrives. */
  spillLimit(maxBytes: number): number {
    return Math.min(maxBytes, Math.floor(this.#maxBytes / SPILL_SHARE));
  }

  /** Such a text has been written: evicts others to make room for it. */
  spilled(name: string): Promise<void> {
    return this.#next(async () => {
      await this.#measured();
      const size = await sizeOf(this.path(name));
      if (size === undefined) return;
      this.#note(name, size);
      await this.#makeRoom(0);
    });
  }

  /** Notices about evicted and refused outputs since the last call. */
  async takeNotices(): Promise<string[]> {
    await this.#tail;
    const [dropped, refused] = [this.#dropped, this.#refused];
    this.#dropped = this.#refused = 0;
    const limit = `the limit for a session's outputs is ${Math.round(this.#maxBytes / 1024 / 1024)} MB (--disk-mb).`;
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
    // Reinserted as the newest.
    sizes.delete(name);
    sizes.set(name, taken(bytes));
  }

  /** A previous process may have left some. */
  async #measured(): Promise<Map<string, number>> {
    if (this.#sizes) return this.#sizes;
    const names = (await ifExists(readdir(this.folder))) ?? [];
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
  return (await ifExists(stat(path)))?.size;
}

/** False: the file is gone. */
async function touch(path: string): Promise<boolean> {
  const now = new Date();
  return utimes(path, now, now).then(
    () => true,
    () => false,
  );
}

/** Atomic: readers see either the old file or the new one. */
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
