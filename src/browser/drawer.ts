import type { Log } from "../log.ts";
import type { Semaphore } from "../semaphore.ts";
import { within } from "../within.ts";
import { drawHtml, openHtmlPage } from "./html.ts";
import type { Page } from "./page.ts";
import { drawPlotly } from "./plotly.ts";
import type { BrowserProcess } from "./process.ts";

/** Longer pages are only linked. One with all of plotly.js in it has 5 million. */
const MAX_HTML_CHARS = 8_000_000;

export type Figure = { type: "plotly"; figure: unknown } | { type: "html"; html: string };

export interface DrawnFigure {
  /** PNG. */
  bytes: Buffer;
  /** Set if the picture does not show all of it. */
  note?: string;
}

/** Draws the figures of one reply, one after another. */
export interface FigureDrawer {
  /** Undefined if it cannot be drawn, or the deadline has passed. Never rejects. */
  draw(figure: Figure): Promise<DrawnFigure | undefined>;
  close(): void;
}

export interface DrawerParts {
  log: Log;
  limits: { replyMs: number; figureMs: number };
  pageSlots: Semaphore;
  running(): Promise<BrowserProcess>;
  takePlotlyPage(browser: BrowserProcess): Promise<Page>;
  done(usedPlotly: boolean): void;
}

export function openDrawer({ log, limits, pageSlots, running, takePlotlyPage, done }: DrawerParts): FigureDrawer {
  const replyEndMs = performance.now() + limits.replyMs;
  const leftMs = () => replyEndMs - performance.now();
  // Plotly figures of one reply are plain data of one session, so they share a page. Each HTML page gets its own.
  let plotlyPage: Promise<Page> | undefined;
  let plotlyBrowser: BrowserProcess | undefined;
  let isClosed = false;

  async function drawIn(browser: BrowserProcess, figure: Figure): Promise<DrawnFigure> {
    if (figure.type === "plotly") {
      if (plotlyBrowser !== browser) plotlyPage = undefined;
      plotlyBrowser = browser;
      plotlyPage ??= takePlotlyPage(browser);
      try {
        return await inTime(plotlyPage, async (page) => ({ bytes: await drawPlotly(page, figure.figure) }));
      } catch (error) {
        plotlyPage = undefined;
        throw error;
      }
    }
    return inTime(
      openHtmlPage(browser, figure.html),
      async (page) => {
        const { bytes, cutFrom } = await drawHtml(page, figure.html);
        return cutFrom ? { bytes, note: `the beginning of a page of ${cutFrom.width} × ${cutFrom.height}` } : { bytes };
      },
      { close: true },
    );
  }

  /**
   * Opening a page is the browser's own work and may take as long as the reply has; drawing in it may take `figureMs`.
   * Closes a page that fails or times out, which also ends the calls that wait for it.
   */
  async function inTime<Result>(
    opening: Promise<Page>,
    act: (page: Page) => Promise<Result>,
    { close = false } = {},
  ): Promise<Result> {
    let shouldClose = true;
    let timedOut = false;
    let timer: NodeJS.Timeout | undefined;
    try {
      const page = await within(leftMs(), opening);
      if (!page) throw new Error("the browser did not open a page in time");
      const drawMs = Math.min(limits.figureMs, leftMs());
      timer = setTimeout(() => {
        timedOut = true;
        void page.close().catch(() => {});
      }, drawMs);
      const result = await act(page).catch((error) => {
        throw timedOut ? new Error(`it took more than ${Math.round(drawMs / 1000)} s`) : error;
      });
      shouldClose = close;
      return result;
    } finally {
      clearTimeout(timer);
      if (shouldClose) void opening.then((page) => page.close()).catch(() => {});
    }
  }

  return {
    async draw(figure) {
      if (figure.type === "html" && figure.html.length > MAX_HTML_CHARS) return undefined;
      const acquiring = pageSlots.acquire();
      const release = await within(leftMs(), acquiring);
      if (!release) void acquiring.then((release) => release());
      else return drawInSlot(figure).finally(release);
    },
    close() {
      if (isClosed) return;
      isClosed = true;
      void plotlyPage?.then((page) => page.close()).catch(() => {});
      done(plotlyBrowser !== undefined);
    },
  };

  async function drawInSlot(figure: Figure): Promise<DrawnFigure | undefined> {
    for (let tries = 0; tries < 2 && !isClosed && leftMs() > 0; tries += 1) {
      const browser = await within(
        leftMs(),
        running().catch(() => undefined),
      );
      if (!browser) return undefined;
      const watching = browser.watch();
      try {
        return await drawIn(browser, figure);
      } catch (error) {
        log.debug(`a figure was not drawn: ${error instanceof Error ? error.message : error}`);
        // If several figures were being drawn when the browser crashed, this one may be innocent: try again.
        if (!browser.isGone || watching.isAlone()) return undefined;
      } finally {
        watching.stop();
      }
    }
    return undefined;
  }
}
