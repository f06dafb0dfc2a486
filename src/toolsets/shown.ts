import type { Run } from "../engine/run/run.ts";
import type { MimeBundle, Output } from "../execution.ts";
import { cutText, mark } from "../render/text/cut.ts";
import { withoutEscapes } from "../render/text/terminal.ts";
import type { Store } from "../store/store.ts";
import { follow } from "../tools/follow.ts";
import type { ExactBlock, Link, ToolContext } from "../tools/tool.ts";

/** Limit of a cell's rich outputs that are kept and linked. */
const MAX_FORMS = 20;

/** Waits for the end of a cell, as toolsets do. Rejects if it could not be run at all. */
export async function wholeCell(run: Run, context: ToolContext) {
  await follow(run, context);
  return run.finished;
}

/** A stream's text, with a mark where its middle was left out. */
export function streamText({ text, cut }: Extract<Output, { type: "stream" }>): string {
  if (!cut) return withoutEscapes(text);
  const where = cut.full && `all of it is in ${cut.full}`;
  return withoutEscapes(text.slice(0, cut.at) + mark(cut.chars, where) + text.slice(cut.at));
}

export function plainText(data: MimeBundle): string | undefined {
  const plain = data["text/plain"];
  if (typeof plain === "string") return withoutEscapes(plain);
  return Array.isArray(plain) ? withoutEscapes(plain.join("")) : undefined;
}

/** Cells that failed when a lost kernel was rebuilt. */
export function restoreWarnings({ fate }: Run): string[] {
  return (fate.replayed?.failures ?? []).map(({ cell, error }) => `Restore warning: cell ${cell} failed: ${error}`);
}

/** Displays and the cell's value, in order. */
export function bundlesOf(outputs: Output[]): MimeBundle[] {
  return outputs.flatMap((output) => (output.type === "display" || output.type === "result" ? [output.data] : []));
}

export function errorOf(outputs: Output[]): Extract<Output, { type: "error" }> | undefined {
  return outputs.findLast((output) => output.type === "error");
}

/** Truncates the texts of one reply. The full text of a longer one is kept and linked. */
export class Shortened {
  readonly links: Link[] = [];
  readonly #context: Pick<ToolContext, "store" | "options">;
  readonly #sessionId: string;

  constructor(context: Pick<ToolContext, "store" | "options">, sessionId: string) {
    this.#context = context;
    this.#sessionId = sessionId;
  }

  async text(text: string): Promise<string> {
    const { store, options } = this.#context;
    if (text.length <= options.maxResultChars) return text;
    const kept = await keep({ bytes: Buffer.from(text), mimeType: "text/plain" }, this.#sessionId, store);
    if (kept && !this.links.some(({ uri }) => uri === kept.uri)) this.links.push(kept);
    return cutText(text, options.maxResultChars, { where: kept && `all of it is in ${kept.uri}` });
  }
}

/** A representation of a display for which a reply has no field. */
export interface Form {
  mimeType: string;
  bytes: Buffer;
}

/** Keeps forms and links them. */
export async function formLinks(forms: Form[], sessionId: string, store: Store): Promise<Link[]> {
  const links: Link[] = [];
  for (const form of forms.slice(0, MAX_FORMS)) {
    const link = await keep(form, sessionId, store);
    if (link) links.push(link);
  }
  return links;
}

/** If the store is full, only the link is missing. */
async function keep({ bytes, mimeType }: Form, sessionId: string, store: Store): Promise<Link | undefined> {
  const uri = await store.putBlob(sessionId, bytes, mimeType).catch(() => undefined);
  return uri === undefined ? undefined : { uri, name: nameOf(uri), mimeType, sizeBytes: bytes.length };
}

/** The last part of a URI. */
export function nameOf(uri: string): string {
  return uri.slice(uri.lastIndexOf("/") + 1);
}

/** What follows a cell's texts: its pictures, then links to what was kept. */
export function blocksAfter(outputs: Output[], links: Link[]): ExactBlock[] {
  return [{ type: "shown", bundles: bundlesOf(outputs) }, ...links.map((link): ExactBlock => ({ type: "link", link }))];
}
