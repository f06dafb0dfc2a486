import type { Browser } from "../browser/browser.ts";
import { CellwrightError, errorCodes } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Options } from "../options/options.ts";
import type { Store } from "../store/store.ts";
import type { Link, Reply } from "../tools/tool.ts";
import { renderExact } from "./exact.ts";
import { renderExecution } from "./execution.ts";
import { showPictures } from "./pictures/pictures.ts";
import { type ContentBlock, fitted, MAX_REPLY_BYTES, type ToolResult } from "./result.ts";
import { linkBlock } from "./sequence.ts";
import { cutText } from "./text/cut.ts";
import { visible } from "./text/terminal.ts";

/** Longest error message: some quote a whole file. */
const MAX_ERROR_CHARS = 4_000;
/** Reserved for the text beside a picture or a file. */
const WORDS_BYTES = 100_000;
/** Limit of links in a text reply. */
const MAX_LINKS = 100;

/** Turns a tool's reply into content blocks within the budget. */
export async function render(
  reply: Reply,
  context: { options: Options; store: Store; browser?: Browser | undefined },
): Promise<ToolResult> {
  if (reply.type === "execution") return renderExecution(reply, context);
  if (reply.type === "exact") return renderExact(reply, context);
  if (reply.type === "blob") return renderBlob(reply, context.options);
  return renderText(reply, context.options);
}

/** A failure as a result. The details of a bug go only to the log. */
export function renderError(error: unknown, log: Log, explain?: (error: Error) => string): ToolResult {
  const known = error instanceof CellwrightError;
  if (!known) log.error("a tool failed", error);
  const code = known ? error.code : "internal";
  const message = known ? error.message : "Internal error in Cellwright.";
  const hint = known ? error.hint : errorCodes.internal.hint;
  if (explain) {
    const text = known ? explain(error) : `${message} ${hint}`;
    return { content: [{ type: "text", text: cutText(visible(text), MAX_ERROR_CHARS) }], isError: true };
  }
  const said = cutText(visible(message), MAX_ERROR_CHARS);
  return {
    content: [{ type: "text", text: `${said}${hint ? `\n${visible(hint)}` : ""}\n[error: ${code}]` }],
    isError: true,
    _meta: { "cellwright/error": { code, retry: errorCodes[code].retry } },
  };
}

function renderText(reply: Extract<Reply, { type: "text" }>, options: Options): ToolResult {
  const clean = visible(reply.text);
  const links = (reply.links ?? []).slice(0, MAX_LINKS).map(linkBlock);
  return fitted(options.maxResultChars, (budget) => {
    const text = cutText(clean, budget);
    return {
      content: [{ type: "text", text }, ...links],
      ...(options.structured ? { structuredContent: asObject(reply.data, text, budget) } : {}),
    };
  });
}

/** Data that exceeds the text budget is replaced by the text. */
function asObject(data: unknown, text: string, budget: number): Record<string, unknown> {
  const object = typeof data === "object" && data !== null && !Array.isArray(data) ? data : undefined;
  return object && JSON.stringify(object).length <= budget * 2 ? (object as Record<string, unknown>) : { text };
}

/** A picture is shown; any other file is embedded if it fits, else linked. */
async function renderBlob(reply: Extract<Reply, { type: "blob" }>, options: Options): Promise<ToolResult> {
  const { bytes, mimeType, uri } = reply;
  const name = decodeURIComponent(uri.slice(uri.lastIndexOf("/") + 1));
  const link: Link = { uri, name, mimeType, sizeBytes: bytes.length };
  const content: ContentBlock[] = [];
  const words = [cutText(visible(reply.text), Math.floor(options.maxResultChars / 2))];
  if (/^image\/(png|jpeg|gif|webp)$/.test(mimeType)) {
    const { block, note } = await showOne(bytes, mimeType);
    if (block) content.push(block);
    if (note) words.push(`[picture: ${note}]`);
    if (note) content.push(linkBlock(link));
  } else if (Math.ceil(bytes.length / 3) * 4 + WORDS_BYTES <= MAX_REPLY_BYTES) {
    const blob = Buffer.from(bytes).toString("base64");
    content.push({ type: "resource", resource: { uri, mimeType, blob } });
  } else content.push(linkBlock(link));
  const text = words.join("\n");
  content.push({ type: "text", text });
  return { content, ...(options.structured ? { structuredContent: { text, uri, mime_type: mimeType } } : {}) };
}

async function showOne(bytes: Uint8Array, mimeType: string) {
  const maxChars = MAX_REPLY_BYTES - WORDS_BYTES;
  const picture = { bytes: Buffer.from(bytes), mimeType };
  const [shown] = await showPictures([picture], { maxChars, keep: async () => undefined });
  return shown ?? {};
}
