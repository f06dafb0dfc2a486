import { lstatSync, readdirSync } from "node:fs";

const BLOCK_BYTES = 4096;
/** A recount walks the whole folder: not again this soon while nothing was removed. */
const RECOUNT_PAUSE_MS = 250;

/**
 * How much a workspace may still grow. Every write is counted as growth, which is cheap and too much; when that count
 * says the disk is full, the folder is measured and the count starts again from the truth.
 *
 * User code can go around this. It is there to give Python a clean "No space left" first; our process watches the
 * folder as well, and ends a kernel that has gone far beyond.
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

  /** False when this many bytes do not fit any more. */
  spend(bytes: number): boolean {
    if (bytes > this.#leftBytes) this.#recount();
    if (bytes > this.#leftBytes) return false;
    this.#leftBytes -= bytes;
    return true;
  }

  /** Something was removed: the next recount may find room. */
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

/** What a folder takes on disk, near enough: whole blocks, and a block for each file and folder. */
function folderBytes(folder: string): number {
  let bytes = BLOCK_BYTES;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`;
    bytes += entry.isDirectory() ? folderBytes(path) : Math.ceil(lstatSync(path).size / BLOCK_BYTES + 1) * BLOCK_BYTES;
  }
  return bytes;
}
