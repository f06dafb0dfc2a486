import type { MimeBundle, Output } from "../../execution.ts";
import { cutText, mark } from "../../mcp/render/cut.ts";
import { withoutEscapes } from "../../mcp/render/terminal.ts";
import type { Link, ToolContext } from "../../mcp/tool.ts";
import type { Run } from "../../session/run.ts";
import { follow } from "../follow.ts";

/** What a timer can hold. */
const FOR_EVER_MS = 2 ** 31 - 1;

/** In a toolset a call waits for its cell. Rejects if that could not be run at all. */
export async function wholeCell(run: Run, context: ToolContext) {
  await follow(run, context, { patienceMs: FOR_EVER_MS });
  return run.finished;
}

/** A piece of a stream, with a mark where its middle is missing. */
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

/** What was displayed or is a cell's value, in order. */
export function bundlesOf(outputs: Output[]): MimeBundle[] {
  return outputs.flatMap((output) => (output.type === "display" || output.type === "result" ? [output.data] : []));
}

export function errorOf(outputs: Output[]): Extract<Output, { type: "error" }> | undefined {
  return outputs.findLast((output) => output.type === "error");
}

/** Texts of one reply, each as long as a reader takes. The whole of a longer one is kept, and linked. */
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
    // A store that is full costs the link and nothing else.
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
