import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type InitInput, initWasm, Resvg } from "@resvg/resvg-wasm";
import type { ScaledPicture } from "./scale.ts";
import type { SvgEngine } from "./svg-engine.ts";

export interface DrawJob {
  svg: Uint8Array;
  maxSide: number;
  engine: SvgEngine;
}

/** Small drawings are enlarged, without loss, to this side length, by at most `MAX_ZOOM`. */
const GOOD_SIDE = 512;
const MAX_ZOOM = 4;

let ready: Promise<void> | undefined;
let fonts: ReturnType<typeof readFonts> | undefined;

/**
 * Draws an SVG on white. External references are not loaded. Throws if it cannot be drawn; after a `RuntimeError` this
 * thread cannot draw any more.
 */
export async function drawSvg({ svg, maxSide, engine }: DrawJob): Promise<ScaledPicture> {
  ready ??= initWasm(engine as InitInput);
  await ready;
  const page = withNamespaces(new TextDecoder().decode(svg));
  const { width, height } = measure(page);
  const longest = Math.max(width, height);
  const zoom = Math.min(maxSide / longest, Math.max(1, Math.min(MAX_ZOOM, GOOD_SIDE / longest)));
  const fitTo = {
    mode: width >= height ? ("width" as const) : ("height" as const),
    value: Math.max(1, Math.round(longest * zoom)),
  };
  const resvg = open(page, fitTo);
  // Not freed after an error: a trapped WebAssembly instance would throw again and hide the cause.
  const image = resvg.render();
  const picture = { bytes: image.asPng(), mimeType: "image/png" as const, width: image.width, height: image.height };
  image.free();
  resvg.free();
  return picture;
}

function measure(page: string): { width: number; height: number } {
  const resvg = open(page, { mode: "original" });
  const { width, height } = resvg;
  resvg.free();
  return { width, height };
}

function open(page: string, fitTo: { mode: "original" } | { mode: "width" | "height"; value: number }) {
  fonts ??= readFonts();
  return new Resvg(page, { fitTo, background: "white", font: fonts });
}

/** Adds missing namespaces, which browsers do not require of SVG inside HTML. */
function withNamespaces(page: string): string {
  const start = page.search(/<svg[\s>/]/);
  if (start < 0) return page;
  const tag = page.slice(start, page.indexOf(">", start) + 1);
  let names = "";
  if (!/\sxmlns=/.test(tag)) names += ' xmlns="http://www.w3.org/2000/svg"';
  if (!tag.includes("xmlns:xlink=") && page.includes("xlink:")) names += ' xmlns:xlink="http://www.w3.org/1999/xlink"';
  return page.slice(0, start + 4) + names + page.slice(start + 4);
}

/** Without fonts there is no text. The first one is the fallback for all other families, `serif` included. */
function readFonts() {
  const require = createRequire(import.meta.url);
  const names = ["DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSerif"];
  return {
    fontBuffers: names.map((name) => readFileSync(require.resolve(`dejavu-fonts-ttf/ttf/${name}.ttf`))),
    defaultFontFamily: "DejaVu Sans",
  };
}
