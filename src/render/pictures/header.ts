import { promisify } from "node:util";
import { crc32, inflate } from "node:zlib";

export type PictureType = "image/png" | "image/jpeg" | "image/gif" | "image/webp";

export interface PictureHeader {
  /** The actual type, by content: model APIs refuse a picture whose declared type is wrong. */
  mimeType: PictureType;
  width: number;
  height: number;
  /** Size of the decoded picture in memory. */
  decodedBytes: number;
}

/** Reads a picture's header. Undefined if it is none of the four types, truncated, or has no size. */
export function readHeader(bytes: Uint8Array): PictureHeader | undefined {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    const header = readPng(buffer) ?? readGif(buffer) ?? readWebp(buffer) ?? readJpeg(buffer);
    return header && header.width > 0 && header.height > 0 ? header : undefined;
  } catch (error) {
    // A read past the end: the header is truncated.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

const PNG_SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const channelsOfColorType: Record<number, number> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };

function readPng(buffer: Buffer): PictureHeader | undefined {
  if (!buffer.subarray(0, 8).equals(PNG_SIGNATURE) || buffer.toString("latin1", 12, 16) !== "IHDR") return undefined;
  const width = buffer.readUInt32BE(16);
  const height = buffer.readUInt32BE(20);
  const channels = channelsOfColorType[buffer.readUInt8(25)];
  if (!channels) return undefined;
  const bits = buffer.readUInt8(24) * channels;
  return { mimeType: "image/png", width, height, decodedBytes: height * (1 + Math.ceil((width * bits) / 8)) };
}

function readGif(buffer: Buffer): PictureHeader | undefined {
  if (!/^GIF8[79]a$/.test(buffer.toString("latin1", 0, 6)) || buffer.at(-1) !== 0x3b) return undefined;
  const width = buffer.readUInt16LE(6);
  const height = buffer.readUInt16LE(8);
  return { mimeType: "image/gif", width, height, decodedBytes: width * height * 4 };
}

function readWebp(buffer: Buffer): PictureHeader | undefined {
  if (buffer.toString("latin1", 0, 4) !== "RIFF" || buffer.toString("latin1", 8, 12) !== "WEBP") return undefined;
  if (buffer.readUInt32LE(4) + 8 > buffer.length) return undefined;
  const size = webpSize(buffer);
  return size && { mimeType: "image/webp", ...size, decodedBytes: size.width * size.height * 4 };
}

function webpSize(buffer: Buffer): { width: number; height: number } | undefined {
  const kind = buffer.toString("latin1", 12, 16);
  if (kind === "VP8X") return { width: 1 + buffer.readUIntLE(24, 3), height: 1 + buffer.readUIntLE(27, 3) };
  if (kind === "VP8 ") return { width: buffer.readUInt16LE(26) & 0x3fff, height: buffer.readUInt16LE(28) & 0x3fff };
  if (kind !== "VP8L") return undefined;
  const bits = buffer.readUInt32LE(21);
  return { width: 1 + (bits & 0x3fff), height: 1 + ((bits >>> 14) & 0x3fff) };
}

function readJpeg(buffer: Buffer): PictureHeader | undefined {
  if (buffer.readUInt16BE(0) !== 0xffd8) return undefined;
  // Some cameras pad the end; a truncated picture has no end marker at all.
  if (buffer.lastIndexOf(Buffer.from([0xff, 0xd9])) < 4) return undefined;
  for (let at = 2; ; ) {
    if (buffer.readUInt8(at) !== 0xff) return undefined;
    const marker = buffer.readUInt8(at + 1);
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (isFrame) {
      const height = buffer.readUInt16BE(at + 5);
      const width = buffer.readUInt16BE(at + 7);
      return { mimeType: "image/jpeg", width, height, decodedBytes: width * height * 4 };
    }
    at += marker === 0xff ? 1 : 2 + buffer.readUInt16BE(at + 2);
  }
}

/** The parts of a PNG that define its pixels. */
export interface PngPixels {
  /** A PNG with these parts only: other chunks may be large, compressed and hostile. */
  file: Buffer;
  /** The compressed pixels. */
  data: Buffer;
  /** Inflated size; more if interlaced. */
  expectedBytes: number;
  interlaced: boolean;
}

/** Undefined if the file is truncated or a checksum is wrong. */
export function pngPixels(bytes: Uint8Array): PngPixels | undefined {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const header = readPng(buffer);
  if (!header) return undefined;
  const kept: Buffer[] = [PNG_SIGNATURE];
  const data: Buffer[] = [];
  for (let at = 8; at + 12 <= buffer.length; ) {
    const end = at + 12 + buffer.readUInt32BE(at);
    if (end > buffer.length) return undefined;
    const type = buffer.toString("latin1", at + 4, at + 8);
    if (["IHDR", "PLTE", "tRNS", "IDAT", "IEND"].includes(type)) {
      if (crc32(buffer.subarray(at + 4, end - 4)) !== buffer.readUInt32BE(end - 4)) return undefined;
      kept.push(buffer.subarray(at, end));
    }
    if (type === "IDAT") data.push(buffer.subarray(at + 8, end - 4));
    if (type === "IEND") {
      return {
        file: Buffer.concat(kept),
        data: Buffer.concat(data),
        expectedBytes: header.decodedBytes,
        interlaced: buffer.readUInt8(28) === 1,
      };
    }
    at = end;
  }
  return undefined;
}

const inflateAsync = promisify<Buffer, { maxOutputLength: number }, Buffer>(inflate);

/** The rows of a PNG, filtered. Undefined if they cannot be inflated or are larger than declared. */
export function inflateRows(pixels: PngPixels): Promise<Buffer | undefined> {
  return inflateAsync(pixels.data, { maxOutputLength: maxUnpackedBytes(pixels) }).catch(() => undefined);
}

/** Upper bound of the inflated size. Interlacing makes more, shorter rows, each with a filter byte. */
export function maxUnpackedBytes({ expectedBytes, interlaced }: PngPixels): number {
  return interlaced ? expectedBytes * 2 + 1_000 : expectedBytes;
}
