import { promisify } from "node:util";
import { inflate } from "node:zlib";
import type { Link } from "../tool.ts";
import { showBytes } from "./amounts.ts";
import { shareOut } from "./cut.ts";
import { maxUnpackedBytes, type PictureHeader, pngPixels, readHeader } from "./picture-header.ts";
import type { ContentBlock } from "./result.ts";
import type { Scaler } from "./scaler.ts";

/** The longest side that models look at; larger pictures are scaled down by their API anyway, after being paid for. */
const MAX_SIDE = 1568;
/** Of one picture, before base64. */
const MAX_BYTES = 700_000;
/** Pixels, and bytes of pixels, that are decoded at most. What is larger is linked. */
const MAX_PIXELS = 40_000_000;
const MAX_DECODED_BYTES = 4 * MAX_PIXELS;
/** Of an SVG page that is drawn. Plots of this size have some ten thousand points. */
const MAX_SVG_BYTES = 4_000_000;
/**
 * Pictures shown in one reply: a picture counts about 1600 tokens, and Claude Code puts a result of more than 25 000
 * tokens into a file that the model does not see. Ten leave room for the text.
 */
const MAX_SHOWN = 10;
const SVG = "image/svg+xml";
/** What a picture costs in JSON beside its data. */
const BLOCK_BYTES = 80;

export interface Picture {
  bytes: Buffer;
  /** What the cell called it. */
  mimeType: string;
}

export interface ShownPicture {
  block?: Extract<ContentBlock, { type: "image" }>;
  /** Said when the reader does not see the picture as it is. */
  note?: string;
  /** The original. */
  link?: Link;
}

export interface PictureRoom {
  /** For the base64 of all pictures together. */
  maxChars: number;
  /** Keeps the bytes and returns a link to them, or undefined if no more can be kept. */
  keep(bytes: Uint8Array, mimeType: string): Promise<Link | undefined>;
  scaler: Scaler;
}

interface Candidate {
  bytes: Buffer;
  header?: PictureHeader;
  /** What the bytes were drawn from, which is linked whether they are shown or not. */
  svg?: Buffer;
  block?: ShownPicture["block"];
  /** Why it is not shown, or not as it is. */
  note?: string;
}

/** Makes all pictures of a reply fit: as they are, scaled, scaled further, or linked only. Never rejects. */
export async function showPictures(pictures: Picture[], room: PictureRoom): Promise<ShownPicture[]> {
  const candidates: Candidate[] = [];
  for (const [index, picture] of pictures.entries()) {
    candidates.push(await prepare(picture, { shown: isShown(index, pictures.length), scaler: room.scaler }));
  }
  await squeeze(candidates, room);
  const results: ShownPicture[] = [];
  for (const [index, { bytes, header, svg, block, note }] of candidates.entries()) {
    const mimeType = svg ? SVG : (header?.mimeType ?? pictures[index]?.mimeType ?? "application/octet-stream");
    const original = svg ?? bytes;
    const link = (svg || note) && original.length > 0 ? await room.keep(original, mimeType) : undefined;
    results.push({ block, note, link });
  }
  return results;
}

/** Of too many, the first and the last. */
export function isShown(index: number, count: number): boolean {
  return count <= MAX_SHOWN || index < MAX_SHOWN / 2 || index >= count - MAX_SHOWN / 2;
}

async function prepare(picture: Picture, options: { shown: boolean; scaler: Scaler }): Promise<Candidate> {
  const { bytes, mimeType } = picture;
  if (bytes.length === 0) return { bytes, note: `an empty ${mimeType}` };
  return mimeType === SVG ? prepareSvg(bytes, options) : prepareImage(picture, options);
}

async function prepareSvg(svg: Buffer, { shown, scaler }: { shown: boolean; scaler: Scaler }): Promise<Candidate> {
  const facts = `${SVG}, ${showBytes(svg.length)}`;
  if (!shown) return { bytes: svg, svg, note: `${facts}, one of too many to show` };
  if (svg.length > MAX_SVG_BYTES) return { bytes: svg, svg, note: `${facts}, too large to show` };
  const drawn = await scaler.draw({ svg, maxSide: MAX_SIDE });
  if (!drawn) return { bytes: svg, svg, note: `${facts}, which could not be drawn` };
  return {
    ...(await prepareImage({ bytes: Buffer.from(drawn.bytes), mimeType: "image/png" }, { shown, scaler })),
    svg,
  };
}

async function prepareImage(
  picture: Picture,
  { shown, scaler }: { shown: boolean; scaler: Scaler },
): Promise<Candidate> {
  const { bytes } = picture;
  const header = readHeader(bytes);
  if (!header) return { bytes, note: `a damaged ${picture.mimeType}, ${showBytes(bytes.length)}` };
  const { width, height, mimeType, decodedBytes } = header;
  const facts = `${mimeType}, ${width} × ${height}, ${showBytes(bytes.length)}`;
  if (!shown) return { bytes, header, note: `${facts}, one of too many to show` };
  if (width * height > MAX_PIXELS || decodedBytes > MAX_DECODED_BYTES) {
    return { bytes, header, note: `${facts}, too large to show` };
  }
  if (Math.max(width, height) <= MAX_SIDE && bytes.length <= MAX_BYTES) {
    if (mimeType === "image/png" && !(await isSound(bytes))) return { bytes, header, note: `a damaged ${facts}` };
    return { bytes, header, block: imageBlock(bytes, mimeType) };
  }
  return { bytes, header, ...(await scaled(bytes, header, { maxBytes: MAX_BYTES, scaler })) };
}

/** Gives every picture its share of the room; those that need more are scaled down to it. */
async function squeeze(candidates: Candidate[], { maxChars, scaler }: PictureRoom): Promise<void> {
  const shown = candidates.filter((candidate) => candidate.block);
  const needs = shown.map(({ block }) => (block?.data.length ?? 0) + BLOCK_BYTES);
  const shares = shareOut(needs, Math.max(0, maxChars));
  for (const [index, candidate] of shown.entries()) {
    const share = shares[index] ?? 0;
    if (share >= (needs[index] ?? 0) || !candidate.header) continue;
    const maxBytes = Math.floor(((share - BLOCK_BYTES) * 3) / 4) - 3;
    Object.assign(
      candidate,
      { block: undefined },
      await scaled(candidate.bytes, candidate.header, { maxBytes, scaler }),
    );
  }
}

async function scaled(
  bytes: Buffer,
  { mimeType, width, height }: PictureHeader,
  { maxBytes, scaler }: { maxBytes: number; scaler: Scaler },
): Promise<Pick<Candidate, "block" | "note">> {
  const facts = `${mimeType}, ${width} × ${height}, ${showBytes(bytes.length)}`;
  if (mimeType !== "image/png" && mimeType !== "image/jpeg") return { note: `${facts}, too large to show` };
  const picture = await scaler.scale({ bytes, mimeType, maxSide: MAX_SIDE, maxBytes });
  if (!picture) return { note: `${facts}, which could not be scaled down` };
  const note = `${facts}, shown at ${picture.width} × ${picture.height}`;
  return { block: imageBlock(picture.bytes, picture.mimeType), note };
}

function imageBlock(bytes: Uint8Array, mimeType: string): ShownPicture["block"] {
  return { type: "image", data: Buffer.from(bytes).toString("base64"), mimeType };
}

const inflateAsync = promisify<Buffer, { maxOutputLength: number }, Buffer>(inflate);

/** A model's API refuses a whole conversation for one picture that it cannot decode, so a small one is checked too. */
async function isSound(bytes: Uint8Array): Promise<boolean> {
  const pixels = pngPixels(bytes);
  if (!pixels) return false;
  try {
    const unpacked = await inflateAsync(pixels.data, { maxOutputLength: maxUnpackedBytes(pixels) });
    return pixels.interlaced || unpacked.length === pixels.expectedBytes;
  } catch {
    return false;
  }
}
