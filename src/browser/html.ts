import { MAX_SEEN_SIDE, Page } from "./page.ts";
import type { BrowserProcess } from "./process.ts";

const WIDTH = 800;
/** Default height of a scripted page, which may depend on it. Static pages are measured. */
const SCRIPTED_HEIGHT = 600;
const TABLE_HEIGHT = 50;
const MARGIN = 8;

/** Scripts do not signal that they are done: a page is done when it has not changed for this long. */
const QUIET_MS = 250;
const MAX_SETTLE_MS = 4_000;

/** Content Security Policy: the page may only use what it contains. */
const policy =
  "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' data: blob:; style-src 'unsafe-inline' data:; " +
  "img-src data: blob:; font-src data: blob:; media-src data: blob:; worker-src data: blob:; connect-src data: blob:";

export interface DrawnPage {
  bytes: Buffer;
  /** Size of the whole page, if only its beginning was drawn. */
  cutFrom?: { width: number; height: number };
}

/** Scripts are enabled only for pages that contain any. */
function hasScripts(html: string): boolean {
  return /<script[\s>]/i.test(html);
}

export async function openHtmlPage(browser: BrowserProcess, html: string): Promise<Page> {
  const scripts = hasScripts(html);
  return Page.open(browser, { width: WIDTH, height: scripts ? SCRIPTED_HEIGHT : TABLE_HEIGHT, scripts });
}

/** `html` is untrusted: a page, or a fragment of one. */
export async function drawHtml(page: Page, html: string): Promise<DrawnPage> {
  const scripts = hasScripts(html);
  const isWhole = /<(?:html|body)[\s>]/i.test(html);
  const style = isWhole ? "" : `<style>body{margin:${MARGIN}px;${scripts ? "" : "width:fit-content"}}</style>`;
  const head = `<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${policy}">`;
  await page.setContent(`${head}<style>html{background:#fff}</style>${style}${html}`);
  await page.evaluate(scripts ? settled : "document.fonts.ready.then(() => 0)");
  const size = await measure(page);
  const width = Math.min(size.width, MAX_SEEN_SIDE);
  const height = Math.min(size.height, MAX_SEEN_SIDE);
  const bytes = await page.screenshot({ x: 0, y: 0, width, height });
  return { bytes, ...(width < size.width || height < size.height ? { cutFrom: size } : {}) };
}

async function measure(page: Page): Promise<{ width: number; height: number }> {
  const { cssContentSize, cssLayoutViewport } = await page.call<{
    cssContentSize: { width: number; height: number };
    cssLayoutViewport: { clientWidth: number; clientHeight: number };
  }>("Page.getLayoutMetrics");
  const [right, bottom] = (await page.evaluate(contentEnd)) as [unknown, unknown];
  const end = (size: number, viewport: number, content: unknown) =>
    Math.ceil(
      size > viewport || !Number.isFinite(content) ? size : Math.min(size, Math.max(1, Number(content) + MARGIN)),
    );
  return {
    width: end(cssContentSize.width, cssLayoutViewport.clientWidth, right),
    height: end(cssContentSize.height, cssLayoutViewport.clientHeight, bottom),
  };
}

/** The right and bottom edge of the content: container boxes are as wide as the page, whatever they contain. */
const contentEnd = `(() => {
  let right = 0, bottom = 0;
  const boxes = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  for (let node = boxes.nextNode(), count = 0; node && count < 50000; node = boxes.nextNode(), count += 1) {
    if (node.nodeType === 1 && node.firstElementChild && !node.shadowRoot) continue;
    if (node.nodeType === 3 && !node.data.trim()) continue;
    const range = document.createRange();
    if (node.nodeType === 3) range.selectNode(node);
    const box = (node.nodeType === 3 ? range : node).getBoundingClientRect();
    if (!box.width || !box.height) continue;
    right = Math.max(right, box.right);
    bottom = Math.max(bottom, box.bottom);
  }
  return [right, bottom];
})()`;

/** Bokeh signals when it is done; other pages must be unchanged for a while. */
const settled = `new Promise((resolve) => {
  const started = performance.now();
  let changed = started;
  new MutationObserver(() => { changed = performance.now(); }).observe(document, {
    subtree: true, childList: true, attributes: true, characterData: true,
  });
  const look = () => {
    const now = performance.now();
    const documents = window.Bokeh?.documents;
    const busy = Array.isArray(documents) && !(documents.length > 0 && documents.every((one) => one.is_idle));
    if (now - started > ${MAX_SETTLE_MS} || (!busy && now - changed > ${QUIET_MS})) resolve(0);
    else setTimeout(look, 25);
  };
  look();
})`;
