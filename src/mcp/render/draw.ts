import type { Browser } from "../../browser/browser.ts";
import type { MimeBundle } from "../../execution.ts";
import { bundleParts } from "./bundle.ts";
import { drawFigures } from "./figures.ts";
import { Text } from "./texts.ts";

const NO_EXPORTER = "there is no browser on this machine that could draw it";

/** Makes pictures of figures that are only a description, for those who want them as files. */
export function createFigureDrawer(
  browser: Browser | undefined,
): (bundle: MimeBundle) => Promise<Uint8Array | { failure: string }> {
  return async (bundle) => {
    const { figure } = bundleParts(bundle);
    if (!figure) return { failure: "it is too large to be drawn" };
    const [drawn] = await drawFigures([{ type: "figure", drawable: figure, kind: "output" }], browser);
    if (!drawn || drawn instanceof Text || drawn.type !== "picture") return { failure: NO_EXPORTER };
    return drawn.picture.bytes;
  };
}
