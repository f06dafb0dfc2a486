import type { Options } from "../../options.ts";
import type { Store } from "../../store/store.ts";
import type { Link, Reply } from "../tool.ts";
import type { Attachment } from "./bundle.ts";
import { closingText, fileLinks } from "./closing.ts";
import { cutText, shareOut } from "./cut.ts";
import { type Picture, showPictures } from "./pictures.ts";
import { type ContentBlock, jsonBytes, MAX_REPLY_BYTES, type ToolResult } from "./result.ts";
import { createScaler } from "./scaler.ts";
import { linkBlock, outputPath, type PlacedItem, place, sequenceOf } from "./sequence.ts";
import { structuredExecution } from "./structured.ts";
import { Text } from "./texts.ts";

type ExecutionReply = Extract<Reply, { type: "execution" }>;

/** Outputs that a reply links: originals of pictures, HTML, long texts. */
const MAX_OUTPUT_LINKS = 20;
/** Kept free for links, `_meta` and the shape of the JSON itself. */
const LINK_BYTES = 60_000;
/** Of the reply, so that there is room for pictures however much text is allowed. */
const MAX_TEXT_BYTES = 500_000;

/** What a cell did, for a model: everything in the order it happened, within the budget, and how it ended. */
export async function renderExecution(
  reply: ExecutionReply,
  { options, store }: { options: Options; store: Store },
): Promise<ToolResult> {
  const { session, execution, late } = reply;
  const notices = [...execution.notices];
  const keeper = createKeeper(session.id, store);
  const items = sequenceOf(execution.outputs, late);
  const { placed, lost } = await placeAll(items, keeper, options);
  if (lost > 0) notices.push(`${lost} more outputs are neither shown nor linked: a reply links ${MAX_OUTPUT_LINKS}.`);
  const texts = placed.filter((item) => item instanceof Text);
  const files = fileLinks(session.id, execution.files).map(linkBlock);
  const kernel = execution.executionCount === 1 ? session.kernel?.description : undefined;
  const facts = { sessionId: session.id, execution, queued: reply.queued, kernel, notices };
  await keepLongTexts(texts, keeper, options.maxResultChars - closingText(facts, options.maxResultChars).length);

  function assemble(budget: number): ToolResult {
    const closing = closingText(facts, budget);
    const shown = cutAll(texts, budget - closing.length);
    const content: ContentBlock[] = [];
    for (const item of placed) {
      if (!(item instanceof Text)) content.push(item);
      else {
        addText(content, shown.get(item) ?? "");
        if (item.full && item.chars > (shown.get(item)?.length ?? 0)) content.push(fullLink(item.full));
      }
    }
    content.push(...files);
    addText(content, closing);
    return {
      content,
      ...(options.structured ? { structuredContent: structuredExecution(reply, { budget, notices, content }) } : {}),
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

  let budget = options.maxResultChars;
  let result = assemble(budget);
  // Characters are up to three bytes each, and all text is there twice when structured.
  while (jsonBytes(result) > MAX_REPLY_BYTES && budget > 1_000) {
    budget = Math.floor(budget * 0.7);
    result = assemble(budget);
  }
  return result;
}

/** Keeps outputs in the store, as many as a reply may link; a store that is full costs the link and nothing else. */
interface Keeper {
  keep(bytes: Uint8Array, mimeType: string): Promise<Link | undefined>;
}

function createKeeper(sessionId: string, store: Store): Keeper {
  let left = MAX_OUTPUT_LINKS;
  return {
    async keep(bytes, mimeType) {
      if (left <= 0) return undefined;
      left -= 1;
      try {
        const uri = await store.putBlob(sessionId, bytes, mimeType);
        return { uri, name: outputPath(uri), mimeType, sizeBytes: bytes.length };
      } catch {
        return undefined;
      }
    },
  };
}

async function placeAll(
  items: ReturnType<typeof sequenceOf>,
  keeper: Keeper,
  options: Options,
): Promise<{ placed: PlacedItem[]; lost: number }> {
  const pictures: Picture[] = [];
  const links = new Map<Attachment, Link | undefined>();
  let textBytes = 0;
  for (const item of items) {
    if (item instanceof Text) textBytes += jsonBytes(item.shown);
    else if (item.type === "picture") pictures.push(item.picture);
    else links.set(item.attachment, await keeper.keep(item.attachment.bytes, item.attachment.mimeType));
  }
  const copies = options.structured ? 2 : 1;
  const reserved = Math.min(textBytes, options.maxResultChars * 3, MAX_TEXT_BYTES / copies) * copies + LINK_BYTES;
  const scaler = createScaler();
  try {
    const shown = await showPictures(pictures, {
      maxChars: MAX_REPLY_BYTES - reserved,
      keep: (bytes, mimeType) => keeper.keep(bytes, mimeType),
      scaler,
    });
    const lost =
      shown.filter(({ block, link }) => !block && !link).length + [...links.values()].filter((link) => !link).length;
    return { placed: place(items, shown, links), lost };
  } finally {
    await scaler.close();
  }
}

/** What will be cut and is not in a file yet is put into one, so that the reply can say where it is. */
async function keepLongTexts(texts: Text[], keeper: Keeper, budget: number): Promise<void> {
  const shown = cutAll(texts, budget);
  for (const text of texts) {
    if (text.full || (shown.get(text)?.length ?? 0) >= text.chars) continue;
    const link = await keeper.keep(Buffer.from(text.whole), "text/plain");
    text.full = link?.uri;
  }
}

/**
 * Shares the budget out. Exceptions come first, the last one before the others, since they say what to do next; then
 * late output, which is not what was asked for, up to a quarter; then everything else alike.
 */
function cutAll(texts: Text[], budget: number): Map<Text, string> {
  const shown = new Map<Text, string>();
  let left = budget;
  for (const text of texts.filter(({ kind }) => kind === "error").reverse()) {
    const share = Math.floor(Math.min(text.chars, budget * 0.4, left * 0.6));
    cut(text, share, 0.3);
  }
  for (const [kind, share] of [
    ["late", 0.25],
    ["output", 1],
  ] as const) {
    const own = texts.filter((text) => text.kind === kind);
    const shares = shareOut(
      own.map((text) => text.chars),
      Math.floor(Math.max(0, kind === "late" ? Math.min(left, budget * share) : left)),
    );
    for (const [index, text] of own.entries()) cut(text, shares[index] ?? 0, 0.5);
  }
  return shown;

  function cut(text: Text, share: number, headShare: number): void {
    const where = text.full ? outputPath(text.full) : undefined;
    const result = cutText(text.shown, share, { gaps: text.gaps, headShare, where });
    shown.set(text, result);
    left -= result.length;
  }
}

function addText(content: ContentBlock[], text: string): void {
  if (text === "") return;
  const last = content.at(-1);
  if (last?.type === "text") last.text += (last.text.endsWith("\n") ? "" : "\n") + text;
  else content.push({ type: "text", text });
}

function fullLink(uri: string): ContentBlock {
  return linkBlock({ uri, name: outputPath(uri), mimeType: "text/plain" });
}
