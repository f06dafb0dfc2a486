import type { MimeBundle } from "../../execution.ts";
import { type DrawableFigure, figureOf } from "./figure.ts";
import { embeddedMedia } from "./media.ts";
import type { Picture } from "./pictures.ts";

/** What there is to show of a MIME bundle: text for the model, a picture, and forms that are only linked. */
export interface BundleParts {
  text?: string;
  picture?: Picture;
  /** What a browser could make a picture of, where there is none. */
  figure?: DrawableFigure;
  attachments: Attachment[];
}

export interface Attachment {
  mimeType: string;
  bytes: Buffer;
}

/** The first of them that a bundle has is its picture. SVG has to be drawn first, so it comes last. */
const pictureTypes = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/svg+xml"];
/** Forms that mean nothing outside of the program that made them. */
const ignoredTypes =
  /^application\/(vnd\.jupyter\.widget-(view|state)\+json|vnd\.jupyter\.es6-rich-output|vnd\.cellwright\.value\+json)$/;
/** What Python says of an object that has no text form: its class and perhaps its place in memory. */
const namelessObject = /^<[^\n]*>$/;
/** More of an HTML page is not worth a reader's time; the page is linked. */
const HTML_TEXT_CHARS = 2_000;
const HTML_READ_CHARS = 100_000;
/** A longer formula is not read by anybody. */
const FORMULA_CHARS = 1_000;

export function bundleParts(data: MimeBundle): BundleParts {
  const forms = new Map(Object.entries(data).map(([mimeType, value]) => [mimeType, value]));
  const pictureType = pictureTypes.find((mimeType) => textOf(forms.get(mimeType)) !== undefined);
  const picture = pictureType && { mimeType: pictureType, bytes: bytesOf(pictureType, forms.get(pictureType)) };
  const media = embeddedMedia(textOf(forms.get("text/html")) ?? "");
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
  return figureOf({ plotly, html: textOf(data["text/html"]), text: plainOf(data) });
}

/** The text form, unless it only says that there is something. */
function plainOf(data: MimeBundle): string | undefined {
  const plain = textOf(data["text/plain"]);
  return plain === undefined || namelessObject.test(plain.trim()) ? undefined : plain;
}

/** The form that says most to a reader of text. */
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

/** A formula is told as code, which says how to go on with it, and as it is written. */
function withFormula(plain: string, latex: string | undefined): string {
  return latex === undefined || latex.length > FORMULA_CHARS ? plain : `${plain}\n${latex}`;
}

/** Everything that is not shown as text or picture. The same pixels in another format are nothing new. */
function isAttached(mimeType: string, { hasPicture }: { hasPicture: boolean }): boolean {
  if (hasPicture && /^image\/(png|jpeg|webp|gif)$/.test(mimeType)) return false;
  if (mimeType === "text/html") return true;
  return !mimeType.startsWith("text/") && mimeType !== "application/json" && !ignoredTypes.test(mimeType);
}

/** Some kernels give text as a list of lines. */
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
    return "(JSON that is nested too deeply)";
  }
}

const entities: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', nbsp: " ", "#39": "'", apos: "'" };

/**
 * The words of a page without its tags, roughly: for a model that has nothing else to read. The page is a cell's work
 * and may be made to be slow to read, so each step goes through it once.
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

/** Leaves out everything from each `open` to the next `close`. */
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
