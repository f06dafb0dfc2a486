import type { MimeBundle } from "../execution.ts";
import { type DrawableFigure, figureOf } from "./figures/figure.ts";
import { embeddedMedia } from "./pictures/media.ts";
import type { Picture } from "./pictures/pictures.ts";

/** A MIME bundle split up: text for the model, a picture, and attachments that are only linked. */
export interface BundleParts {
  text?: string;
  picture?: Picture;
  /** What a browser can draw, if the bundle has no picture. */
  figure?: DrawableFigure;
  attachments: Attachment[];
}

export interface Attachment {
  mimeType: string;
  bytes: Buffer;
}

/** By preference. SVG is last because it has to be rasterized. */
const pictureTypes = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/svg+xml"];
/** Types that only a notebook front end understands. */
const ignoredTypes =
  /^application\/(vnd\.jupyter\.widget-(view|state)\+json|vnd\.jupyter\.es6-rich-output|vnd\.cellwright\.value\+json)$/;
/** Python's default repr: the class and perhaps the address. */
const namelessObject = /^<[^\n]*>$/;
/** Text shown of an HTML page; the page is linked. */
const HTML_TEXT_CHARS = 2_000;
const HTML_READ_CHARS = 100_000;
/** Longer formulas are not shown. */
const FORMULA_CHARS = 1_000;

export function bundleParts(data: MimeBundle): BundleParts {
  const forms = new Map(Object.entries(data).map(([mimeType, value]) => [mimeType, value]));
  const pictureType = pictureTypes.find((mimeType) => textOf(forms.get(mimeType)) !== undefined);
  const picture = pictureType && { mimeType: pictureType, bytes: bytesOf(pictureType, forms.get(pictureType)) };
  const html = textOf(forms.get("text/html"));
  const media = html === undefined ? undefined : embeddedMedia(html);
  if (media) forms.delete("text/html");
  const attachments = [...forms]
    .filter(([mimeType]) => mimeType !== pictureType && isAttached(mimeType, { hasPicture: picture !== undefined }))
    .map(([mimeType, value]) => ({ mimeType, bytes: bytesOf(mimeType, value) }));
  if (media) attachments.push(media);
  if (picture) return { text: bundleText(data, { hasPicture: true }), picture, attachments };
  return { text: media ? plainOf(data) : bundleText(data), figure: media ? undefined : drawable(data), attachments };
}

function drawable(data: MimeBundle): DrawableFigure | undefined {
  const plotly = data["application/vnd.plotly.v1+json"];
  const html = textOf(data["text/html"]);
  if (plotly === undefined && html === undefined) return undefined;
  return figureOf({ plotly, html, text: plainOf(data) });
}

/** The plain text, unless it is only a default repr. */
function plainOf(data: MimeBundle): string | undefined {
  const plain = textOf(data["text/plain"]);
  return plain === undefined || namelessObject.test(plain.trim()) ? undefined : plain;
}

/** The most informative text representation. */
export function bundleText(data: MimeBundle, { hasPicture = false } = {}): string | undefined {
  const plain = plainOf(data);
  if (plain !== undefined) return withFormula(plain, textOf(data["text/latex"]));
  for (const mimeType of ["text/markdown", "text/latex"]) {
    const text = textOf(data[mimeType]);
    if (text !== undefined) return text;
  }
  if (hasPicture) return undefined;
  if (data["application/json"] !== undefined) return jsonText(data["application/json"]);
  const html = textOf(data["text/html"]);
  const fromHtml = html === undefined ? "" : htmlText(html);
  if (fromHtml !== "") return fromHtml;
  const other = Object.keys(data).find((mimeType) => mimeType.startsWith("text/") && mimeType !== "text/html");
  return textOf(data["text/plain"] ?? (other === undefined ? undefined : data[other]));
}

/** A formula as code, which can be used in the next cell, and as LaTeX. */
function withFormula(plain: string, latex: string | undefined): string {
  return latex === undefined || latex.length > FORMULA_CHARS ? plain : `${plain}\n${latex}`;
}

/** Everything not shown as text or picture. The same picture in another format adds nothing. */
function isAttached(mimeType: string, { hasPicture }: { hasPicture: boolean }): boolean {
  if (hasPicture && /^image\/(png|jpeg|webp|gif)$/.test(mimeType)) return false;
  if (mimeType === "text/html") return true;
  return !mimeType.startsWith("text/") && mimeType !== "application/json" && !ignoredTypes.test(mimeType);
}

/** Some kernels send text as a list of lines. */
function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return Array.isArray(value) && value.every((line) => typeof line === "string") ? value.join("") : undefined;
}

function bytesOf(mimeType: string, value: unknown): Buffer {
  const text = textOf(value);
  if (text === undefined) return Buffer.from(jsonText(value));
  const isText = /^text\/|[+/](json|xml|javascript)$/.test(mimeType);
  return Buffer.from(text, isText ? "utf8" : "base64");
}

function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "null";
  } catch {
    return "(JSON nested too deeply)";
  }
}

const entities: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', nbsp: " ", "#39": "'", apos: "'" };

/**
 * The text of a page without its tags, roughly, if there is no other text. The page is untrusted, so each step takes
 * linear time.
 */
function htmlText(html: string): string {
  let text = html.slice(0, HTML_READ_CHARS);
  text = without(text, "<!--", "-->");
  text = without(text, "<script", "</script>");
  text = without(text, "<style", "</style>");
  return text
    .replace(/<(?:\/(?:p|div|tr|li|h\d|table|pre)|br ?\/?)>/gi, "\n")
    .replace(/<\/t[dh]>/gi, " ")
    .replace(/<[^<>]*>/g, "")
    .replace(/&(#39|[a-z]{2,4});/g, (whole, name) => entities[name] ?? whole)
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .join("\n")
    .slice(0, HTML_TEXT_CHARS);
}

/** Removes everything from each `open` to the next `close`. */
function without(text: string, open: string, close: string): string {
  const lower = text.toLowerCase();
  let kept = "";
  for (let at = 0; ; ) {
    const start = lower.indexOf(open, at);
    if (start < 0) return kept + text.slice(at);
    kept += text.slice(at, start);
    const end = lower.indexOf(close, start);
    if (end < 0) return kept;
    at = end + close.length;
  }
}
