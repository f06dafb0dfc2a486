import type { Browser } from "../../browser/browser.ts";
import type { DrawnFigure } from "../../browser/drawer.ts";
import { isBlank } from "../pictures/blank.ts";
import { isShown } from "../pictures/pictures.ts";
import { type FigureItem, type Item, isFigure } from "../sequence.ts";
import { Text } from "../text/texts.ts";

/** Replaces figures by pictures; by their text if they cannot be drawn or are too many. Never rejects. */
export async function drawFigures(items: Item[], browser: Browser | undefined): Promise<Item[]> {
  const count = items.filter(isFigure).length;
  const drawer = browser?.openDrawer();
  try {
    const drawn: Item[] = [];
    let index = 0;
    for (const item of items) {
      if (!isFigure(item)) {
        drawn.push(item);
        continue;
      }
      const picture = isShown(index, count) ? await drawer?.draw(item.drawable.figure) : undefined;
      index += 1;
      drawn.push(picture && !(await isBlank(picture.bytes)) ? pictureItem(item, picture) : textItem(item));
    }
    return drawn;
  } finally {
    drawer?.close();
  }
}

function pictureItem({ drawable }: FigureItem, { bytes, note }: DrawnFigure): Item {
  const said = [drawable.caption, note && `[picture: ${note}]`].filter((part) => part !== undefined && part !== "");
  return {
    type: "picture",
    picture: { mimeType: "image/png", bytes },
    ...(said.length > 0 ? { text: said.join("\n") } : {}),
  };
}

function textItem({ text, kind }: FigureItem): Item {
  const words = new Text(kind);
  if (text !== undefined) words.addLines(text);
  return words;
}
