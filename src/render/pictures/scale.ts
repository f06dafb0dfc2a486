import { inflateSync } from "node:zlib";
import { convertIndexedToRgb, decode as decodePng, encode as encodePng } from "fast-png";
import jpeg from "jpeg-js";
import { maxUnpackedBytes, pngPixels } from "./header.ts";

export interface ScaleJob {
  bytes: Uint8Array;
  mimeType: "image/png" | "image/jpeg";
  maxSide: number;
  maxBytes: number;
}

export interface ScaledPicture {
  bytes: Uint8Array;
  mimeType: "image/png" | "image/jpeg";
  width: number;
  height: number;
}

/** Smallest useful side of a scaled picture. */
const MIN_SIDE = 64;

/** Scales a picture to fit. Undefined if that is impossible; throws if it cannot be decoded. */
export function scalePicture({ bytes, mimeType, maxSide, maxBytes }: ScaleJob): ScaledPicture | undefined {
  const source = mimeType === "image/png" ? readPng(bytes) : readJpeg(bytes);
  const longest = Math.max(source.width, source.height);
  let pixels = shrink(source, Math.min(1, maxSide / longest));
  if (mimeType === "image/png") {
    const png = toPng(pixels);
    if (png.length <= maxBytes) return { bytes: png, mimeType, width: pixels.width, height: pixels.height };
  }
  for (;;) {
    const { width, height } = pixels;
    for (const quality of [85, 70]) {
      const encoded = toJpeg(pixels, quality);
      if (encoded.length <= maxBytes) return { bytes: encoded, mimeType: "image/jpeg", width, height };
    }
    if (Math.max(width, height) < MIN_SIDE * 2) return undefined;
    pixels = shrink(rowsOf(pixels), 0.7);
  }
}

/** RGBA pixels. */
interface Pixels {
  width: number;
  height: number;
  data: Uint8Array;
}

/** A picture read row by row, to avoid a second copy of a large one. */
interface Rows {
  width: number;
  height: number;
  /** Fills `into` with one row of RGBA. */
  read(y: number, into: Uint8Array): void;
}

function rowsOf({ width, height, data }: Pixels): Rows {
  return { width, height, read: (y, into) => into.set(data.subarray(y * width * 4, (y + 1) * width * 4)) };
}

function readJpeg(bytes: Uint8Array): Rows {
  return rowsOf(jpeg.decode(bytes, { useTArray: true, maxResolutionInMP: 40, maxMemoryUsageInMB: 768 }));
}

function readPng(bytes: Uint8Array): Rows {
  const pixels = pngPixels(bytes);
  if (!pixels) throw new Error("The PNG is damaged.");
  // Inflated once with a limit, because the decoder has none: a few bytes can inflate to gigabytes.
  inflateSync(pixels.data, { maxOutputLength: maxUnpackedBytes(pixels) });
  const png = decodePng(pixels.file);
  const { width, height, depth } = png;
  const data = png.palette ? convertIndexedToRgb(png) : png.data;
  const channels = png.palette ? (png.palette[0]?.length ?? 3) : png.channels;
  if (channels === 4 && data instanceof Uint8Array) return rowsOf({ width, height, data });
  const sample = sampler(data, { depth: png.palette ? 8 : depth, rowSamples: width * channels });
  // One color or gray value that means transparent.
  const clear = png.palette ? undefined : png.transparency;
  return {
    width,
    height,
    read(y, into) {
      for (let x = 0; x < width; x += 1) {
        const at = x * channels;
        const grey = channels < 3;
        for (let channel = 0; channel < 3; channel += 1) into[x * 4 + channel] = sample(y, grey ? at : at + channel);
        into[x * 4 + 3] = channels === 2 || channels === 4 ? sample(y, at + channels - 1) : 255;
        if (clear && isClear(y, at)) into[x * 4 + 3] = 0;
      }
    },
  };

  function isClear(y: number, at: number): boolean {
    for (let channel = 0; channel < channels; channel += 1) {
      if (sample.raw(y, at + channel) !== clear?.[channel]) return false;
    }
    return true;
  }
}

/** Reads samples of any bit depth as bytes; `raw`: unscaled. Rows start at a whole byte. */
function sampler(data: ArrayLike<number>, { depth, rowSamples }: { depth: number; rowSamples: number }) {
  const raw = (y: number, index: number): number => {
    if (depth >= 8) return data[y * rowSamples + index] ?? 0;
    const bit = index * depth;
    const byte = data[y * Math.ceil((rowSamples * depth) / 8) + (bit >> 3)] ?? 0;
    return (byte >> (8 - depth - (bit & 7))) & ((1 << depth) - 1);
  };
  const top = 2 ** depth - 1;
  const read = depth === 8 ? raw : (y: number, index: number) => Math.round((raw(y, index) * 255) / top);
  return Object.assign((y: number, index: number) => read(y, index), { raw });
}

/** Each new pixel is the average of the area it covers: thin lines and small text stay visible. */
function shrink(source: Rows, factor: number): Pixels {
  const width = Math.max(1, Math.round(source.width * factor));
  const height = Math.max(1, Math.round(source.height * factor));
  const data = new Uint8Array(width * height * 4);
  const row = new Uint8Array(source.width * 4);
  const stepX = source.width / width;
  const stepY = source.height / height;
  const across = new Float64Array(width * 4);
  const sums = new Float64Array(width * 4);
  for (let y = 0; y < source.height; y += 1) {
    source.read(y, row);
    averageAcross(row, across, { width, step: stepX, rowPixels: source.width });
    for (let target = Math.floor(y / stepY); target < height && target * stepY < y + 1; target += 1) {
      const weight = Math.min(y + 1, (target + 1) * stepY) - Math.max(y, target * stepY);
      if (weight > 0)
        for (let at = 0; at < sums.length; at += 1) sums[at] = (sums[at] ?? 0) + (across[at] ?? 0) * weight;
      if ((target + 1) * stepY <= y + 1 + 1e-9 || y === source.height - 1) {
        writeRow(sums, data.subarray(target * width * 4, (target + 1) * width * 4), stepX * stepY);
        sums.fill(0);
      }
    }
  }
  return { width, height, data };
}

/** Colors are weighted by alpha: transparent pixels have no color. */
function averageAcross(
  row: Uint8Array,
  across: Float64Array,
  { width, step, rowPixels }: { width: number; step: number; rowPixels: number },
): void {
  for (let x = 0; x < width; x += 1) {
    const from = x * step;
    const to = Math.min(from + step, rowPixels);
    let red = 0;
    let green = 0;
    let blue = 0;
    let alpha = 0;
    for (let pixel = Math.floor(from); pixel < to; pixel += 1) {
      const at = pixel * 4;
      const weight = (Math.min(pixel + 1, to) - Math.max(pixel, from)) * (row[at + 3] as number);
      red += (row[at] as number) * weight;
      green += (row[at + 1] as number) * weight;
      blue += (row[at + 2] as number) * weight;
      alpha += weight;
    }
    across[x * 4] = red;
    across[x * 4 + 1] = green;
    across[x * 4 + 2] = blue;
    across[x * 4 + 3] = alpha;
  }
}

function writeRow(sums: Float64Array, into: Uint8Array, area: number): void {
  for (let at = 0; at < into.length; at += 4) {
    const alpha = sums[at + 3] as number;
    for (let channel = 0; channel < 3; channel += 1) {
      into[at + channel] = alpha > 0 ? Math.round((sums[at + channel] as number) / alpha) : 0;
    }
    into[at + 3] = Math.min(255, Math.round(alpha / area));
  }
}

function toPng({ width, height, data }: Pixels): Uint8Array {
  let opaque = true;
  for (let at = 3; at < data.length && opaque; at += 4) opaque = data[at] === 255;
  if (!opaque) return encodePng({ width, height, channels: 4, data }, { zlib: { level: 6 } });
  const rgb = new Uint8Array(width * height * 3);
  for (let pixel = 0; pixel < width * height; pixel += 1) {
    for (let channel = 0; channel < 3; channel += 1) rgb[pixel * 3 + channel] = data[pixel * 4 + channel] as number;
  }
  return encodePng({ width, height, channels: 3, data: rgb }, { zlib: { level: 6 } });
}

/** JPEG has no alpha: transparent areas become white, the usual background of plots. */
function toJpeg({ width, height, data }: Pixels, quality: number): Uint8Array {
  const onWhite = new Uint8Array(data.length);
  for (let at = 0; at < data.length; at += 4) {
    const alpha = (data[at + 3] as number) / 255;
    for (let channel = 0; channel < 3; channel += 1) {
      onWhite[at + channel] = Math.round((data[at + channel] as number) * alpha + 255 * (1 - alpha));
    }
    onWhite[at + 3] = 255;
  }
  return jpeg.encode({ width, height, data: onWhite }, quality).data;
}
