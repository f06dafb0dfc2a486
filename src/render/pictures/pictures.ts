import { MAX_SEEN_SIDE } from "../../browser/page.ts";
import type { Link } from "../../tools/tool.ts";
import type { ContentBlock } from "../result.ts";
import { showBytes } from "../text/amounts.ts";
import { shareOut } from "../text/cut.ts";
import { inflateRows, type PictureHeader, pngPixels, readHeader } from "./header.ts";
import { createScaler, type Scaler } from "./scaler.ts";

/** Limit of one picture, before base64. */
const MAX_BYTES = 700_000;
/** Limits of decoding, in pixels and bytes. Larger pictures are linked. */
const MAX_PIXELS = 40_000_000;
const MAX_DECODED_BYTES = 4 * MAX_PIXELS;
/** Limit of an SVG to draw. Plots of this size have some ten thousand points. */
const MAX_SVG_BYTES = 4_000_000;
/**
 * Limit of pictures in one reply: each takes about 1600 tokens, and Claude Code moves a result of more than 25 000
 * tokens into a file that the model does not see. Ten leave space for the text.
 */
const MAX_SHOWN = 10;
const SVG = "image/svg+xml";
/** JSON overhead of one picture. */
const BLOCK_BYTES = 80;

export interface Picture {
  bytes: Buffer;
  /** As declared by the cell. */
  mimeType: string;
}

export interface ShownPicture {
  block?: Extract<ContentBlock, { type: "image" }>;
  /** Why the picture is not shown in its original form. */
  note?: string;
  /** The original. */
  link?: Link;
}

export interface PictureBudget {
  /** Budget for the base64 of all pictures. */
  maxChars: number;
  /** Keeps the bytes and returns a link to them, or undefined if no more can be kept. */
  keep(bytes: Uint8Array, mimeType: string): Promise<Link | undefined>;
}

interface Candidate {
  bytes: Buffer;
  header?: PictureHeader;
  /** The SVG that `bytes` were drawn from; always linked. */
  svg?: Buffer;
  block?: ShownPicture["block"];
  /** Why it is not shown, or not in its original form. */
  note?: string;
}

/** Fits all pictures of a reply into the budget: unchanged, scaled, scaled further, or only linked. Never rejects. */
export async function showPictures(pictures: Picture[], room: PictureBudget): Promise<ShownPicture[]> {
  const candidates = await fitting(pictures, room.maxChars);
  const results: ShownPicture[] = [];
  for (const [index, { bytes, header, svg, block, note }] of candidates.entries()) {
    const mimeType = svg ? SVG : (header?.mimeType ?? pictures[index]?.mimeType ?? "application/octet-stream");
    const original = svg ?? bytes;
    const link = (svg || note) && original.length > 0 ? await room.keep(original, mimeType) : undefined;
    results.push({ block, note, link });
  }
  return results;
}

async function fitting(pictures: Picture[], maxChars: number): Promise<Candidate[]> {
  const candidates: Candidate[] = [];
  const scaler = createScaler();
  try {
    for (const [index, picture] of pictures.entries()) {
      candidates.push(await prepare(picture, { shown: isShown(index, pictures.length), scaler }));
    }
    await squeeze(candidates, { maxChars, scaler });
    return candidates;
  } finally {
    await scaler.close();
  }
}

/** If there are too many, the first and the last are shown. */
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
  const drawn = await scaler.draw({ svg, maxSide: MAX_SEEN_SIDE });
  if (!drawn) return { bytes: svg, svg, note: `${facts}, which could not be drawn` };
  const picture = { bytes: Buffer.from(drawn.bytes), mimeType: drawn.mimeType };
  return { ...(await prepareImage(picture, { shown, scaler })), svg };
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
  if (Math.max(width, height) <= MAX_SEEN_SIDE && bytes.length <= MAX_BYTES) {
    if (mimeType === "image/png" && !(await isSound(bytes))) return { bytes, header, note: `a damaged ${facts}` };
    return { bytes, header, block: imageBlock(bytes, mimeType) };
  }
  return { bytes, header, ...(await scaled(bytes, header, { maxBytes: MAX_BYTES, scaler })) };
}

/** Scales each picture down to its share of the budget, if it needs more. */
async function squeeze(
  candidates: Candidate[],
  { maxChars, scaler }: { maxChars: number; scaler: Scaler },
): Promise<void> {
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
  const picture = await scaler.scale({ bytes, mimeType, maxSide: MAX_SEEN_SIDE, maxBytes });
  if (!picture) return { note: `${facts}, which could not be scaled down` };
  const note = `${facts}, shown at ${picture.width} × ${picture.height}`;
  return { block: imageBlock(picture.bytes, picture.mimeType), note };
}

function imageBlock(bytes: Uint8Array, mimeType: string): ShownPicture["block"] {
  return { type: "image", data: Buffer.from(bytes).toString("base64"), mimeType };
}

/** Model APIs refuse a whole conversation for one picture that they cannot decode, so even small ones are checked. */
async function isSound(bytes: Uint8Array): Promise<boolean> {
  const pixels = pngPixels(bytes);
  if (!pixels) return false;
  const rows = await inflateRows(pixels);
  return rows !== undefined && (pixels.interlaced || rows.length === pixels.expectedBytes);
}
