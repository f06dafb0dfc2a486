import type { Run } from "../engine/run/run.ts";
import type { MimeBundle, Output } from "../execution.ts";
import { cutText, mark } from "../render/text/cut.ts";
import { withoutEscapes } from "../render/text/terminal.ts";
import { follow } from "../tools/follow.ts";
import type { Link, ToolContext } from "../tools/tool.ts";

/** Longest delay of a Node timer. */
const FOR_EVER_MS = 2 ** 31 - 1;

/** Waits for the end of a cell, as toolsets do. Rejects if it could not be run at all. */
export async function wholeCell(run: Run, context: ToolContext) {
  await follow(run, context, { patienceMs: FOR_EVER_MS });
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
    const bytes = Buffer.from(text);
    // If the store is full, only the link is missing.
    const uri = await store.putBlob(this.#sessionId, bytes, "text/plain").catch(() => undefined);
    if (uri !== undefined && !this.links.some((link) => link.uri === uri))
      this.links.push({
        uri,
        name: uri.slice(uri.lastIndexOf("/") + 1),
        mimeType: "text/plain",
        sizeBytes: bytes.length,
      });
    return cutText(text, options.maxResultChars, { where: uri && `all of it is in ${uri}` });
  }
}
