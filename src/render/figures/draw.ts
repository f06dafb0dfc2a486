import type { Browser } from "../../browser/browser.ts";
import type { MimeBundle } from "../../execution.ts";
import { bundleParts } from "../bundle.ts";
import { Text } from "../text/texts.ts";
import { drawFigures } from "./figures.ts";

const NO_EXPORTER = "no browser is installed on this machine to draw it";

/** Draws figures that are only a specification (plotly, HTML) as PNG files. */
export function createFigureDrawer(
  browser: Browser | undefined,
): (bundle: MimeBundle) => Promise<Uint8Array | { failure: string }> {
  return async (bundle) => {
    const { figure } = bundleParts(bundle);
    if (!figure) return { failure: "it is too large to draw" };
    const [drawn] = await drawFigures([{ type: "figure", drawable: figure, kind: "output" }], browser);
    if (!drawn || drawn instanceof Text || drawn.type !== "picture") return { failure: NO_EXPORTER };
    return drawn.picture.bytes;
  };
}
