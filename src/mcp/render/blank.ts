import { promisify } from "node:util";
import { inflate } from "node:zlib";
import { maxUnpackedBytes, pngPixels } from "./picture-header.ts";

const unpack = promisify<Buffer, { maxOutputLength: number }, Buffer>(inflate);

/** The smooth edges of letters and lines alone have more colours than this. */
const MAX_BLANK_VALUES = 6;

/**
 * Whether there is nothing on a page that a browser drew: one whose program needs what it has to fetch first. Rows of
 * one colour are, as PNG writes them, of a few different bytes.
 */
export async function isBlank(png: Buffer): Promise<boolean> {
  const pixels = pngPixels(png);
  if (!pixels) return true;
  try {
    const bytes = await unpack(pixels.data, { maxOutputLength: maxUnpackedBytes(pixels) });
    const seen = new Set<number>();
    for (const byte of bytes) if (seen.add(byte).size > MAX_BLANK_VALUES) return false;
    return true;
  } catch {
    return true;
  }
}
