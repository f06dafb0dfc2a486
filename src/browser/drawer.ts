import type { Log } from "../log.ts";
import { drawHtml, openHtmlPage } from "./html.ts";
import type { Page } from "./page.ts";
import { drawPlotly } from "./plotly.ts";
import type { BrowserProcess } from "./process.ts";
import type { Turns } from "./turns.ts";

/** A longer page is linked only. One with all of plotly.js in it has 5 million. */
const MAX_HTML_CHARS = 8_000_000;

export type Figure = { type: "plotly"; figure: unknown } | { type: "html"; html: string };

export interface DrawnFigure {
  /** PNG. */
  bytes: Buffer;
  /** Said when the reader does not see all of it. */
  note?: string;
}

/** Draws the figures of one reply, one after another. */
export interface FigureDrawer {
  /** Undefined if it cannot be drawn, or time is up. Never rejects. */
  draw(figure: Figure): Promise<DrawnFigure | undefined>;
  close(): void;
}

export interface DrawerParts {
  log: Log;
  limits: { replyMs: number; figureMs: number };
  turns: Turns;
  running(): Promise<BrowserProcess>;
  takePlotlyPage(browser: BrowserProcess): Promise<Page>;
  done(usedPlotly: boolean): void;
}

export function openDrawer({ log, limits, turns, running, takePlotlyPage, done }: DrawerParts): FigureDrawer {
  const replyEndMs = performance.now() + limits.replyMs;
  // Figures of one reply are one session's, and data only: they share a page. A page of HTML is alone in its own.
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

  /** A page that fails or takes too long is closed, which also ends the waiting for it. */
  async function inTime<Result>(
    opening: Promise<Page>,
    act: (page: Page) => Promise<Result>,
    { close = false } = {},
  ): Promise<Result> {
    let shouldClose = true;
    let timedOut = false;
    const leftMs = Math.min(limits.figureMs, replyEndMs - performance.now());
    const timer = setTimeout(() => {
      timedOut = true;
      void opening.then((page) => page.close()).catch(() => {});
    }, leftMs);
    try {
      const result = await act(await opening);
      shouldClose = close;
      return result;
    } catch (error) {
      throw timedOut ? new Error(`it took more than ${Math.round(leftMs / 1000)} s`) : error;
    } finally {
      clearTimeout(timer);
      if (shouldClose) void opening.then((page) => page.close()).catch(() => {});
    }
  }

  return {
    async draw(figure) {
      if (figure.type === "html" && figure.html.length > MAX_HTML_CHARS) return undefined;
      const taking = turns.take();
      const endTurn = await before(taking, replyEndMs);
      if (!endTurn) void taking.then((end) => end());
      else return drawInTurn(figure).finally(endTurn);
    },
    close() {
      if (isClosed) return;
      isClosed = true;
      void plotlyPage?.then((page) => page.close()).catch(() => {});
      done(plotlyBrowser !== undefined);
    },
  };

  async function drawInTurn(figure: Figure): Promise<DrawnFigure | undefined> {
    for (let tries = 0; tries < 2 && !isClosed && performance.now() < replyEndMs; tries += 1) {
      const browser = await before(running(), replyEndMs);
      if (!browser) return undefined;
      const watching = browser.watch();
      try {
        return await drawIn(browser, figure);
      } catch (error) {
        log.debug(`a figure was not drawn: ${error instanceof Error ? error.message : error}`);
        // A browser that broke under several is not broken by each of them.
        if (!browser.isGone || watching.isAlone()) return undefined;
      } finally {
        watching.stop();
      }
    }
    return undefined;
  }
}

/** Undefined when it fails or takes longer. */
async function before<Value>(promise: Promise<Value>, endMs: number): Promise<Value | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), Math.max(0, endMs - performance.now()));
  });
  try {
    return await Promise.race([promise.catch(() => undefined), late]);
  } finally {
    clearTimeout(timer);
  }
}
