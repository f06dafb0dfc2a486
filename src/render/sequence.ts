import type { LateOutput } from "../engine/run/late-outputs.ts";
import type { Output } from "../execution.ts";
import type { Link } from "../tools/tool.ts";
import { type Attachment, bundleParts } from "./bundle.ts";
import type { DrawableFigure } from "./figures/figure.ts";
import type { Picture, ShownPicture } from "./pictures/pictures.ts";
import type { ContentBlock } from "./result.ts";
import { outputPath, Text } from "./text/texts.ts";
import { tracebackText } from "./text/traceback.ts";

/** One part of a reply, in output order. */
export type Item =
  | Text
  | { type: "picture"; picture: Picture; text?: string }
  | { type: "figure"; drawable: DrawableFigure; text?: string; kind: "output" | "late" }
  | { type: "attachment"; attachment: Attachment };
export type FigureItem = Extract<Item, { type: "figure" }>;
export type PlacedItem = Text | Exclude<ContentBlock, { type: "text" }>;

export function isFigure(item: Item): item is FigureItem {
  return !(item instanceof Text) && item.type === "figure";
}

/** All output, with the late output of earlier cells first and marked. */
export function sequenceOf(outputs: Output[], late: LateOutput[]): Item[] {
  const items: Item[] = [];
  for (const { executionCount, outputs: lateOutputs } of late) {
    const cell = executionCount === null ? "an earlier cell" : `cell ${executionCount}`;
    textAt(items, "late").addOwn(`[late output of ${cell}]\n`);
    addOutputs(items, lateOutputs, "late");
    textAt(items, "late").addOwn("[end of late output]\n");
  }
  addOutputs(items, outputs, "output");
  return items;
}

function addOutputs(items: Item[], outputs: Output[], kind: "output" | "late"): void {
  const streams = new Set(outputs.flatMap((output) => (output.type === "stream" ? [output.name] : [])));
  let stream = "stdout";
  for (const output of outputs) {
    if (output.type === "stream") {
      const text = textAt(items, kind);
      if (streams.size > 1 && output.name !== stream) text.addOwn(`[${output.name}]\n`);
      stream = output.name;
      text.addStream(output);
    } else if (output.type === "error") {
      if (kind === "output") items.push(new Text("error"));
      textAt(items, kind === "output" ? "error" : kind).addOwn(tracebackText(output));
    } else {
      const { text, picture, figure, attachments } = bundleParts(output.data);
      if (picture) items.push({ type: "picture", picture, text });
      else if (figure) items.push({ type: "figure", drawable: figure, text, kind });
      else if (text !== undefined) textAt(items, kind).addLines(text);
      items.push(...attachments.map((attachment) => ({ type: "attachment" as const, attachment })));
    }
  }
}

/** Replaces pictures and attachments by blocks, links and text. Figures are drawn already. */
export function place(items: Item[], pictures: ShownPicture[], links: Map<Attachment, Link | undefined>): PlacedItem[] {
  const placed: PlacedItem[] = [];
  let next = 0;
  for (const item of items) {
    if (item instanceof Text) {
      if (!item.isEmpty) placed.push(item);
      continue;
    }
    if (item.type === "attachment") {
      const link = links.get(item.attachment);
      if (link) placed.push(linkBlock(link));
      continue;
    }
    if (item.type === "figure") continue;
    const { block, note, link } = pictures[next++] ?? {};
    if (item.text !== undefined) textAt(placed, "output").addLines(item.text);
    // A notice counts those without a link.
    if (note && (block || link))
      textAt(placed, "output").addOwn(pictureNote(note, { shown: block !== undefined, link }));
    if (block) placed.push(block);
    if (link) placed.push(linkBlock(link));
  }
  return placed;
}

export function linkBlock({ uri, name, mimeType, sizeBytes }: Link): Extract<ContentBlock, { type: "resource_link" }> {
  return {
    type: "resource_link",
    uri,
    name,
    ...(mimeType ? { mimeType } : {}),
    ...(sizeBytes === undefined ? {} : { size: sizeBytes }),
  };
}

function pictureNote(note: string, { shown, link }: { shown: boolean; link?: Link }): string {
  const where = link ? `; ${shown ? "the original" : "it"} is ${outputPath(link.uri)}` : "";
  return `[picture: ${note}${where}]\n`;
}

/** The last item, if it is text of this kind; else a new one. */
function textAt(items: (Item | PlacedItem)[], kind: Text["kind"]): Text {
  const last = items.at(-1);
  if (last instanceof Text && last.kind === kind) return last;
  const text = new Text(kind);
  items.push(text);
  return text;
}
