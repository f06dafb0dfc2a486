import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { outlinesFor } from "./maps.ts";
import { MAX_SEEN_SIDE, Page } from "./page.ts";
import type { BrowserProcess } from "./process.ts";

/** Plotly's own default. */
const WIDTH = 700;
const HEIGHT = 500;
/** Figures may ask for any size; these are the bounds. */
const MIN_SIDE = 50;
const MAX_SIDE = 8_000;

/** A page with plotly.js loaded. Loading takes far longer than drawing. */
export async function openPlotlyPage(browser: BrowserProcess): Promise<Page> {
  const page = await Page.open(browser, { width: WIDTH, height: HEIGHT, scripts: true });
  try {
    const file = createRequire(import.meta.url).resolve("plotly.js-dist-min/plotly.min.js");
    await page.evaluate(`${await readFile(file, "utf8")};0`);
    return page;
  } catch (error) {
    await page.close();
    throw error;
  }
}

/** `figure` is untrusted. Rejects if plotly cannot draw it. */
export async function drawPlotly(page: Page, figure: unknown): Promise<Buffer> {
  const { data, layout } = (figure ?? {}) as { data?: unknown; layout?: { width?: unknown; height?: unknown } };
  const width = side(layout?.width, WIDTH);
  const height = side(layout?.height, HEIGHT);
  const scale = Math.min(1, MAX_SEEN_SIDE / Math.max(width, height));
  const wanted = { data, layout: { ...layout, width, height } };
  // As text that the page parses: an object literal in the script could set prototypes.
  const json = JSON.stringify(JSON.stringify(wanted));
  const options = JSON.stringify({ format: "png", width, height, scale });
  const outlines = await outlinesFor({ data, layout });
  if (outlines) await page.evaluate(`${outlines};0`);
  const address = String(await page.evaluate(`Plotly.toImage(JSON.parse(${json}), ${options})`));
  return Buffer.from(address.slice(address.indexOf(",") + 1), "base64");
}

function side(wanted: unknown, usual: number): number {
  if (typeof wanted !== "number" || !Number.isFinite(wanted) || wanted <= 0) return usual;
  return Math.round(Math.min(Math.max(wanted, MIN_SIDE), MAX_SIDE));
}
