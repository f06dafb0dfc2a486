import { lstatSync, readdirSync } from "node:fs";

const BLOCK_BYTES = 4096;
/** Minimum interval of recounts while nothing is removed: each walks the whole folder. */
const RECOUNT_PAUSE_MS = 250;

/**
 * How much a workspace may still grow. Every write counts as growth, which is cheap but overestimates. When the
 * estimate says that the disk is full, the folder is measured and the count restarts from the real value.
 *
 * User code can bypass this. It exists to give Python a clean "No space left" error first; the server also watches the
 * folder and ends a kernel that is far over the limit.
 */
export class Quota {
  readonly limitBytes: number;
  readonly #folder: string;
  #leftBytes = 0;
  #countedAt = Number.NEGATIVE_INFINITY;

  constructor(folder: string, limitBytes: number) {
    this.#folder = folder;
    this.limitBytes = limitBytes;
  }

  /** False if this many bytes do not fit. */
  spend(bytes: number): boolean {
    if (bytes > this.#leftBytes) this.#recount();
    if (bytes > this.#leftBytes) return false;
    this.#leftBytes -= bytes;
    return true;
  }

  /** Something was removed: the next recount may find space. */
  freed(): void {
    this.#countedAt = Number.NEGATIVE_INFINITY;
  }

  freeBytes(): number {
    this.#recount();
    return Math.max(0, this.#leftBytes);
  }

  #recount(): void {
    const now = performance.now();
    if (now - this.#countedAt < RECOUNT_PAUSE_MS) return;
    this.#leftBytes = this.limitBytes - folderBytes(this.#folder);
    this.#countedAt = performance.now();
  }
}

/** Approximate disk use of a folder: whole blocks, and one block for each file and folder. */
function folderBytes(folder: string): number {
  let bytes = BLOCK_BYTES;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`;
    bytes += entry.isDirectory() ? folderBytes(path) : Math.ceil(lstatSync(path).size / BLOCK_BYTES + 1) * BLOCK_BYTES;
  }
  return bytes;
}
