import type { Browser } from "../browser/browser.ts";
import type { Execution, FileChange } from "../execution.ts";
import type { Options } from "../options/options.ts";
import type { Store } from "../store/store.ts";
import type { Link, Reply } from "../tools/tool.ts";
import { fileUri } from "../tools/uri.ts";
import type { Attachment } from "./bundle.ts";
import { drawFigures } from "./figures/figures.ts";
import { createKeep, type Keep } from "./kept.ts";
import { type Picture, showPictures } from "./pictures/pictures.ts";
import { type ContentBlock, fitted, jsonBytes, MAX_REPLY_BYTES, type ToolResult } from "./result.ts";
import { type Item, isFigure, linkBlock, type PlacedItem, place, sequenceOf } from "./sequence.ts";
import { structuredExecution } from "./structured.ts";
import { showBytes, showDuration } from "./text/amounts.ts";
import { cutText } from "./text/cut.ts";
import { visible } from "./text/terminal.ts";
import { cutAll, outputPath, Text } from "./text/texts.ts";

/** Limit of links to originals of pictures, HTML and other attachments; and again of links to long texts. */
const MAX_OUTPUT_LINKS = 20;
/** Reserved for links, `_meta` and JSON syntax. */
const LINK_BYTES = 60_000;
/** Limit of text, so that pictures have space, whatever --max-result-chars allows. */
const MAX_TEXT_BYTES = 500_000;

/** Limit of links to changed files. A cell that unpacks an archive creates thousands. */
const MAX_FILE_LINKS = 20;
/** Longer URIs are not linked: they would fill the reply. */
const MAX_URI_CHARS = 1_000;
/** Share of the budget for notices, and for files. */
const SHARE = 0.15;

/** A cell's result for a model: all output in order, within the budget, and the status. */
export async function renderExecution(
  reply: Extract<Reply, { type: "execution" }>,
  { options, store, browser }: { options: Options; store: Store; browser?: Browser | undefined },
): Promise<ToolResult> {
  const { session, execution } = reply;
  const sequence = sequenceOf(execution.outputs, reply.late);
  const items = sequence.some(isFigure) ? await drawFigures(sequence, browser) : sequence;
  const openKeep = () => createKeep(session.id, store, { limit: MAX_OUTPUT_LINKS });
  const isPlain = items.every((item) => item instanceof Text);
  const { placed, lost } = isPlain
    ? { placed: items.filter((text) => !text.isEmpty), lost: 0 }
    : await placeAll(items, { keep: openKeep(), options });
  const running = session.kernels.find(({ language }) => language === execution.language);
  const kernel = execution.executionCount === 1 ? running : undefined;
  const notices = [...execution.notices, ...(kernel?.notes ?? [])];
  if (lost > 0)
    notices.push(`${lost} more pictures or rich outputs are not linked: a reply links ${MAX_OUTPUT_LINKS}.`);
  const facts = { sessionId: session.id, execution, queued: reply.queued, kernel: kernel?.description, notices };
  const texts = placed.filter((item) => item instanceof Text);
  const files = fileLinks(session.id, execution.files).map(linkBlock);

  const forTexts = options.maxResultChars - closingText(facts, options.maxResultChars).length;
  await keepLong(texts, forTexts, openKeep);
  // A character takes up to three bytes, and structured replies contain the text twice.
  return fitted(options.maxResultChars, assemble);

  function assemble(budget: number): ToolResult {
    const closing = closingText(facts, budget);
    const content = [...blocksOf(placed, cutAll(texts, budget - closing.length)), ...files];
    addText(content, closing);
    const structuredContent = options.structured ? structuredExecution(reply, { budget, notices, content }) : undefined;
    return {
      content,
      ...(structuredContent ? { structuredContent } : {}),
      _meta: {
        "cellwright/execution": {
          session_id: session.id,
          execution_id: execution.id,
          status: execution.status,
          execution_count: execution.executionCount,
          duration_ms: execution.durationMs,
        },
      },
    };
  }
}

/** Decides which pictures are shown and how, and links the others. */
async function placeAll(
  items: Item[],
  { keep, options }: { keep: Keep; options: Options },
): Promise<{ placed: PlacedItem[]; lost: number }> {
  const pictures: Picture[] = [];
  const links = new Map<Attachment, Link | undefined>();
  let textBytes = 0;
  for (const item of items) {
    if (item instanceof Text) textBytes += jsonBytes(item.shown);
    else if (item.type === "picture") pictures.push(item.picture);
    else if (item.type === "attachment")
      links.set(item.attachment, await keep(item.attachment.bytes, item.attachment.mimeType));
  }
  const copies = options.structured ? 2 : 1;
  const reserved = Math.min(textBytes, options.maxResultChars * 3, MAX_TEXT_BYTES / copies) * copies + LINK_BYTES;
  const shown = await showPictures(pictures, { maxChars: MAX_REPLY_BYTES - reserved, keep });
  const unseen = shown.filter(({ block, link }) => !block && !link).length;
  const unlinked = [...links.values()].filter((link) => !link).length;
  return { placed: place(items, shown, links), lost: unseen + unlinked };
}

/** Saves texts that will be truncated, so that the reply can name the file. */
async function keepLong(texts: Text[], budget: number, openKeep: () => Keep): Promise<void> {
  const shown = cutAll(texts, budget);
  const long = texts.filter((text) => !text.full && (shown.get(text)?.length ?? 0) < text.chars);
  if (long.length === 0) return;
  const keep = openKeep();
  for (const text of long) text.full = (await keep(Buffer.from(text.whole), "text/plain"))?.uri;
}

function blocksOf(placed: PlacedItem[], shown: Map<Text, string>): ContentBlock[] {
  const content: ContentBlock[] = [];
  for (const item of placed) {
    if (!(item instanceof Text)) content.push(item);
    else {
      const text = shown.get(item) ?? "";
      addText(content, text);
      const isCut = item.gaps.length > 0 || text.length < item.shown.length;
      if (item.full && isCut) {
        content.push(linkBlock({ uri: item.full, name: outputPath(item.full), mimeType: "text/plain" }));
      }
    }
  }
  return content;
}

/** Merges consecutive texts into one block. */
function addText(content: ContentBlock[], text: string): void {
  if (text === "") return;
  const last = content.at(-1);
  if (last?.type === "text") last.text += (last.text.endsWith("\n") ? "" : "\n") + text;
  else content.push({ type: "text", text });
}

interface ClosingFacts {
  sessionId: string;
  execution: Execution;
  queued: boolean;
  /** Set for a session's first cell. */
  kernel?: string;
  notices: string[];
}

/** The end of a reply: notices, changed files, and the status line. */
function closingText(facts: ClosingFacts, budget: number): string {
  const notices = facts.notices.map((notice) => `${visible(notice)}\n`).join("");
  const files = filesText(facts.execution.files, Math.floor(budget * SHARE));
  return cutText(notices, Math.floor(budget * SHARE)) + files + lastLine(facts);
}

function fileLinks(sessionId: string, files: FileChange[]): Link[] {
  return files
    .filter((file) => file.change !== "deleted")
    .slice(0, MAX_FILE_LINKS)
    .map(({ path, mimeType, sizeBytes }) => ({
      uri: fileUri(sessionId, path.toWellFormed()),
      name: visible(path),
      mimeType,
      sizeBytes,
    }))
    .filter(({ uri }) => uri.length <= MAX_URI_CHARS);
}

function filesText(files: FileChange[], maxChars: number): string {
  if (files.length === 0) return "";
  let text = "Files:";
  for (const [index, { path, change, sizeBytes }] of files.entries()) {
    const size = change === "deleted" ? "" : ` (${showBytes(sizeBytes)})`;
    const name = visible(path).replaceAll("\n", "\u240a");
    const next = `${index === 0 ? "" : ","} ${change} ${name}${size}`;
    const rest = `, and ${files.length - index} more`;
    if (text.length + next.length + rest.length > maxChars) return `${text}${index === 0 ? rest.slice(5) : rest}\n`;
    text += next;
  }
  return `${text}\n`;
}

function lastLine({ sessionId, execution, queued, kernel }: ClosingFacts): string {
  const { id, status, executionCount, durationMs, outputs, files } = execution;
  const facts = [`session ${sessionId}`];
  if (executionCount !== null) facts.push(`cell ${executionCount}`);
  if (status === "running") {
    facts.push(`execution ${id}`, queued ? "queued behind another cell" : "running");
    facts.push(showDuration(durationMs), "call wait with this session_id for the rest, or interrupt to stop it");
  } else {
    facts.push(status, showDuration(durationMs));
    if (outputs.length === 0 && files.length === 0) facts.push("no output");
  }
  if (kernel) facts.push(kernel);
  return `[${facts.join(" · ")}]`;
}
