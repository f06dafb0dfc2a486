import type { Browser } from "../../browser/browser.ts";
import type { Options } from "../../options.ts";
import type { Store } from "../../store/store.ts";
import type { Link, Reply } from "../tool.ts";
import { cutAll } from "./budget.ts";
import type { Attachment } from "./bundle.ts";
import { closingText, fileLinks } from "./closing.ts";
import { drawFigures } from "./figures.ts";
import { createKeep, type Keep } from "./kept.ts";
import { type Picture, showPictures } from "./pictures.ts";
import { type ContentBlock, jsonBytes, MAX_REPLY_BYTES, type ToolResult } from "./result.ts";
import { createScaler } from "./scaler.ts";
import { type Item, linkBlock, type PlacedItem, place, sequenceOf } from "./sequence.ts";
import { structuredExecution } from "./structured.ts";
import { outputPath, Text } from "./texts.ts";

/** Of originals of pictures, HTML and other forms; and again of texts that are too long. */
const MAX_OUTPUT_LINKS = 20;
/** Kept free for links, `_meta` and the shape of the JSON itself. */
const LINK_BYTES = 60_000;
/** Of the reply, so that there is room for pictures however much text is allowed. */
const MAX_TEXT_BYTES = 500_000;

/** What a cell did, for a model: everything in the order it happened, within the budget, and how it ended. */
export async function renderExecution(
  reply: Extract<Reply, { type: "execution" }>,
  { options, store, browser }: { options: Options; store: Store; browser?: Browser | undefined },
): Promise<ToolResult> {
  const { session, execution } = reply;
  const items = await drawFigures(sequenceOf(execution.outputs, reply.late), browser);
  const { placed, lost } = await placeAll(items, {
    keep: createKeep(session.id, store, { limit: MAX_OUTPUT_LINKS }),
    options,
  });
  const running = session.kernels.find(({ language }) => language === execution.language);
  const kernel = execution.executionCount === 1 ? running : undefined;
  const notices = [...execution.notices, ...(kernel?.notes ?? [])];
  if (lost > 0)
    notices.push(`${lost} more pictures or rich outputs are not linked: a reply links ${MAX_OUTPUT_LINKS}.`);
  const facts = { sessionId: session.id, execution, queued: reply.queued, kernel: kernel?.description, notices };
  const texts = placed.filter((item) => item instanceof Text);
  const files = fileLinks(session.id, execution.files).map(linkBlock);

  let budget = options.maxResultChars;
  const forTexts = budget - closingText(facts, budget).length;
  await keepLong(texts, forTexts, createKeep(session.id, store, { limit: MAX_OUTPUT_LINKS }));
  let result = assemble();
  // Characters are up to three bytes each, and all text is there twice when structured.
  while (jsonBytes(result) > MAX_REPLY_BYTES && budget > 1_000) {
    budget = Math.floor(budget * 0.7);
    result = assemble();
  }
  return result;

  function assemble(): ToolResult {
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

/** Decides which pictures are shown and how, and links what is not. */
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
  const scaler = createScaler();
  try {
    const shown = await showPictures(pictures, { maxChars: MAX_REPLY_BYTES - reserved, keep, scaler });
    const unseen = shown.filter(({ block, link }) => !block && !link).length;
    const unlinked = [...links.values()].filter((link) => !link).length;
    return { placed: place(items, shown, links), lost: unseen + unlinked };
  } finally {
    await scaler.close();
  }
}

/** What will be cut and is not in a file yet is put into one, so that the reply can say where it is. */
async function keepLong(texts: Text[], budget: number, keep: Keep): Promise<void> {
  const shown = cutAll(texts, budget);
  for (const text of texts) {
    if (text.full || (shown.get(text)?.length ?? 0) >= text.chars) continue;
    text.full = (await keep(Buffer.from(text.whole), "text/plain"))?.uri;
  }
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

/** Texts that follow each other are one block. */
function addText(content: ContentBlock[], text: string): void {
  if (text === "") return;
  const last = content.at(-1);
  if (last?.type === "text") last.text += (last.text.endsWith("\n") ? "" : "\n") + text;
  else content.push({ type: "text", text });
}
