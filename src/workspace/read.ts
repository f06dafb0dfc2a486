import { type BigIntStats, closeSync, fstat, fstatSync, read } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { CellwrightError } from "../errors.ts";
import { outside, shown } from "./path.ts";
import { keptChanging, tooLarge } from "./refusals.ts";

const readAsync = promisify(read);
const fstatAsync = promisify(fstat) as unknown as (fd: number, options: { bigint: true }) => Promise<BigIntStats>;

/**
 * How far apart two changes must be for a file's times to differ: Linux before 6.13 stamps with the timer tick, 10 ms
 * at the slowest. A file changed more recently than that may change again without a trace, so it is not believed yet.
 */
const TICK_MS = 12;

/** A file that a cell writes to all the time never comes to rest; after this many looks that is the answer. */
const ATTEMPTS = 3;

/** Only a regular file with one name: another name may be outside, and the rest can block or do things when opened. */
export function ordinary(stats: BigIntStats, path: string): void {
  if (stats.isDirectory()) throw new CellwrightError("invalid_input", `\`${shown(path)}\` is a folder, not a file.`);
  if (stats.isSymbolicLink()) throw outside(path, "it was replaced by a link");
  if (!stats.isFile()) throw outside(path, "it is not an ordinary file");
  if (stats.nlink > 1n) throw outside(path, "the file has a second name (hard link)");
}

/** All bytes of an open file as they stood at one moment. Takes over the descriptor. */
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

/** A time in the future is a clock that was set back, not a change to wait for. */
function atRest(stats: BigIntStats, startMs: number): boolean {
  const ageMs = startMs - Number(stats.ctimeMs);
  return ageMs > TICK_MS || ageMs < -TICK_MS;
}
