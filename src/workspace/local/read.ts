import { type BigIntStats, closeSync, fstat, fstatSync, read } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { CellwrightError } from "../../errors.ts";
import { outside, shown } from "../path.ts";
import { keptChanging, tooLarge } from "../refusals.ts";

const readAsync = promisify(read);
const fstatAsync = promisify(fstat) as unknown as (fd: number, options: { bigint: true }) => Promise<BigIntStats>;

/**
 * Resolution of file timestamps: Linux before 6.13 uses the timer tick, 10 ms at the slowest. A file changed more
 * recently than that may change again with the same timestamp, so its content is not trusted yet.
 */
const TICK_MS = 12;

/** A file that a cell writes to constantly never settles; after this many attempts, report that. */
const ATTEMPTS = 3;

/**
 * Accepts regular files with one link only: a hard link may be to a file outside, and opening a FIFO or device can
 * block or have side effects.
 */
export function requireRegularFile(stats: BigIntStats, path: string): void {
  if (stats.isDirectory()) throw new CellwrightError("invalid_input", `\`${shown(path)}\` is a folder, not a file.`);
  if (stats.isSymbolicLink()) throw outside(path, "it was replaced by a link");
  if (!stats.isFile()) throw outside(path, "it is not an ordinary file");
  if (stats.nlink > 1n) throw outside(path, "the file has more than one hard link");
}

/** Reads an open file consistently, as of one moment. Closes the descriptor. */
export async function readWhole(fd: number, path: string, maxBytes: number): Promise<Uint8Array> {
  try {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const startMs = Date.now();
      const before = fstatSync(fd, { bigint: true });
      if (before.size > maxBytes) throw tooLarge(path, before.size, maxBytes);
      const bytes = await readBytes(fd, Number(before.size));
      const after = await fstatAsync(fd, { bigint: true });
      if (bytes.length === Number(before.size) && unchanged(before, after) && atRest(after, startMs)) return bytes;
      if (attempt < ATTEMPTS) await sleep(TICK_MS);
    }
    throw keptChanging(path);
  } finally {
    closeSync(fd);
  }
}

async function readBytes(fd: number, sizeBytes: number): Promise<Uint8Array> {
  const bytes = Buffer.allocUnsafeSlow(sizeBytes);
  let length = 0;
  while (length < sizeBytes) {
    const { bytesRead } = await readAsync(fd, bytes, length, sizeBytes - length, length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return bytes.subarray(0, length);
}

function unchanged(before: BigIntStats, after: BigIntStats): boolean {
  return before.size === after.size && before.mtimeNs === after.mtimeNs && before.ctimeNs === after.ctimeNs;
}

/** A time in the future means that the clock was set back, not a recent change. */
function atRest(stats: BigIntStats, startMs: number): boolean {
  const ageMs = startMs - Number(stats.ctimeMs);
  return ageMs > TICK_MS || ageMs < -TICK_MS;
}
