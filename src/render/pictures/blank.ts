import { inflateRows, pngPixels, readHeader } from "./header.ts";

/** True if a PNG has one color or none: a page whose script waits for resources that it cannot load. */
export async function isBlank(png: Buffer): Promise<boolean> {
  const pixels = pngPixels(png);
  const header = readHeader(png);
  const rows = pixels && (await inflateRows(pixels));
  if (!rows || !header) return true;
  const rowBytes = header.decodedBytes / header.height;
  return isOneColour(rows, rowBytes, Math.max(1, Math.floor((rowBytes - 1) / header.width)));
}

/**
 * Each PNG row begins with its filter: none, or the difference to the pixel on the left, above, or both. In a picture
 * of one color the difference is the same everywhere but at the left and upper edge.
 */
function isOneColour(rows: Buffer, rowBytes: number, pixelBytes: number): boolean {
  const colour = rows.subarray(1, 1 + pixelBytes);
  for (let start = 0; start < rows.length; start += rowBytes) {
    const filter = rows[start] ?? 0;
    const isFirstRow = start === 0;
    for (let at = 0; at < rowBytes - 1; at += 1) {
      const value = colour[at % pixelBytes] ?? 0;
      const left = at < pixelBytes ? 0 : value;
      const above = isFirstRow ? 0 : value;
      const expected = [0, left, above, Math.floor((left + above) / 2), Math.max(left, above)][filter] ?? 0;
      if (rows[start + 1 + at] !== ((value - expected) & 255)) return false;
    }
  }
  return true;
}
