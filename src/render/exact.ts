import type { Browser } from "../browser/browser.ts";
import type { Store } from "../store/store.ts";
import type { ExactBlock, Reply } from "../tools/tool.ts";
import { bundleParts } from "./bundle.ts";
import { drawFigures } from "./figures/figures.ts";
import { createKeep } from "./kept.ts";
import { isShown, type Picture, showPictures } from "./pictures/pictures.ts";
import { type ContentBlock, jsonBytes, MAX_REPLY_BYTES, type ToolResult } from "./result.ts";
import { type Item, isFigure, linkBlock } from "./sequence.ts";
import { Text } from "./text/texts.ts";
import { utf8Text } from "./text/utf8.ts";

/** Limit of links to originals of scaled pictures. */
const MAX_LINKS = 20;
/** Reserved for pictures, however much text there is. */
const MIN_PICTURE_BYTES = 200_000;

/** A toolset's reply. Its text stays unchanged; pictures are fitted into the budget. */
export async function renderExact(
  reply: Extract<Reply, { type: "exact" }>,
  { store, browser }: { store: Store; browser?: Browser | undefined },
): Promise<ToolResult> {
  const words = reply.blocks.filter((block) => block.type !== "shown" && block.type !== "resource");
  const room = Math.max(MAX_REPLY_BYTES - jsonBytes(words) - fileBytes(reply.blocks), MIN_PICTURE_BYTES);
  const content: ContentBlock[] = [];
  for (const block of reply.blocks) {
    if (block.type === "shown") content.push(...(await pictureBlocks(block, reply.sessionId)));
    else if (block.type === "resource") content.push(resourceBlock(block));
    else content.push(block.type === "link" ? linkBlock(block.link) : block);
  }
  return {
    content,
    ...(reply.structured === undefined ? {} : { structuredContent: reply.structured }),
    ...(reply.isError === undefined ? {} : { isError: reply.isError }),
  };

  async function pictureBlocks(
    { bundles, unchecked = false }: Extract<ExactBlock, { type: "shown" }>,
    sessionId: string | undefined,
  ): Promise<ContentBlock[]> {
    const parts = bundles.flatMap((bundle): Item[] => {
      const { picture, figure } = bundleParts(bundle);
      if (picture) return [{ type: "picture", picture }];
      return figure ? [{ type: "figure", drawable: figure, kind: "output" }] : [];
    });
    // Without a figure, an idle browser is not to be kept alive.
    const items = parts.some(isFigure) ? await drawFigures(parts, browser) : parts;
    const pictures = items.flatMap((item) => (item instanceof Text || item.type !== "picture" ? [] : [item.picture]));
    const keep = sessionId === undefined ? async () => undefined : createKeep(sessionId, store, { limit: MAX_LINKS });
    const shown = await showPictures(pictures, { maxChars: room, keep });
    return shown.flatMap(({ block, link }, index) => {
      const raw = unchecked && !block && isShown(index, pictures.length) ? asItIs(pictures[index]) : undefined;
      return raw ?? [...(block ? [block] : []), ...(link ? [linkBlock(link)] : [])];
    });
  }
}

/** A small picture that could not be decoded, unchanged. */
function asItIs(picture: Picture | undefined): ContentBlock[] | undefined {
  if (!picture || picture.bytes.length === 0 || picture.bytes.length > MIN_PICTURE_BYTES / 2) return undefined;
  return [{ type: "image", data: picture.bytes.toString("base64"), mimeType: picture.mimeType }];
}

function resourceBlock({ uri, mimeType, bytes }: Extract<ExactBlock, { type: "resource" }>): ContentBlock {
  const text = /^(text\/|application\/json)/.test(mimeType) ? utf8Text(bytes) : undefined;
  const body = text === undefined ? { blob: Buffer.from(bytes).toString("base64") } : { text };
  return { type: "resource", resource: { uri, mimeType, ...body } };
}

/** Size of a reply's files as base64. */
function fileBytes(blocks: ExactBlock[]): number {
  return blocks.reduce(
    (sum, block) => sum + (block.type === "resource" ? Math.ceil(block.bytes.length / 3) * 4 : 0),
    0,
  );
}
