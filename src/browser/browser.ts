import type { JailMode } from "../jail/jail.ts";
import type { Log } from "../log.ts";
import { type FigureDrawer, openDrawer } from "./drawer.ts";
import { findBrowser } from "./find.ts";
import type { BrowserWalls, Walls } from "./launch.ts";
import type { Page } from "./page.ts";
import { openPlotlyPage } from "./plotly.ts";
import { type BrowserProcess, startBrowser } from "./process.ts";
import { Turns } from "./turns.ts";

/** Pages that draw at the same time. More of them would only make each other late. */
const MAX_PAGES = 3;
/** After a failed start there is no other try for so long: each would make a reply wait. */
const REST_MS = 60_000;

/** What figures may cost. */
export interface BrowserLimits {
  /** All figures of one reply together: a client is waiting, and there are words instead. */
  replyMs: number;
  /** One figure, once there is a browser. */
  figureMs: number;
  /** All processes of the browser. With one page of plotly in it it takes about 300. */
  memoryMb: number;
  /** A browser that nobody needed for so long gives its memory back. */
  idleMs: number;
}

const usualLimits: BrowserLimits = { replyMs: 30_000, figureMs: 15_000, memoryMb: 1_500, idleMs: 5 * 60_000 };

export interface BrowserOptions {
  jail: JailMode;
  log: Log;
  /** Otherwise the machine's own is looked for. */
  program?: string | undefined;
  limits?: Partial<BrowserLimits>;
}

/** One browser for all sessions, started for the first figure there is and again after it broke. */
export class Browser {
  readonly #options: BrowserOptions;
  readonly #limits: BrowserLimits;
  #running: Promise<BrowserProcess> | undefined;
  #process: BrowserProcess | undefined;
  #spare: { browser: BrowserProcess; page: Promise<Page> } | undefined;
  readonly #turns = new Turns(MAX_PAGES);
  #drawers = 0;
  #idleTimer: NodeJS.Timeout | undefined;
  #restsUntilMs = 0;
  #disposed = false;
  #said = "";

  constructor(options: BrowserOptions) {
    this.#options = options;
    this.#limits = { ...usualLimits, ...options.limits };
  }

  /** For the figures of one reply. */
  openDrawer(): FigureDrawer {
    clearTimeout(this.#idleTimer);
    this.#drawers += 1;
    return openDrawer({
      log: this.#options.log,
      limits: this.#limits,
      turns: this.#turns,
      running: () => this.running(),
      takePlotlyPage: (browser) => this.#takePlotlyPage(browser),
      done: (usedPlotly) => this.#drawerDone(usedPlotly),
    });
  }

  /** The browser, started if need be. Rejects when there can be none. */
  running(): Promise<BrowserProcess> {
    if (this.#disposed || performance.now() < this.#restsUntilMs)
      return Promise.reject(new Error("there is no browser"));
    if (this.#process?.isGone) this.#running = undefined;
    this.#running ??= this.#start();
    return this.#running;
  }

  async dispose(): Promise<void> {
    this.#disposed = true;
    clearTimeout(this.#idleTimer);
    const running = await this.#running?.catch(() => undefined);
    running?.kill("the program ends");
    await running?.closed;
  }

  async #start(): Promise<BrowserProcess> {
    const { log } = this.#options;
    try {
      const started = await this.#startBehindWalls();
      this.#process = started;
      void started.closed.then((reason) => {
        if (this.#spare?.browser === started) this.#spare = undefined;
        log.debug(`the browser for figures ended: ${reason}`);
      });
      if (this.#disposed) started.kill("the program ends");
      this.#say(`figures are drawn by a browser (${wallsInWords[started.walls]})`);
      return started;
    } catch (error) {
      this.#restsUntilMs = performance.now() + REST_MS;
      this.#running = undefined;
      this.#say(`figures are not drawn, but told in words: ${error instanceof Error ? error.message : error}`);
      throw error;
    }
  }

  async #startBehindWalls(): Promise<BrowserProcess> {
    const { jail, log } = this.#options;
    const program = this.#options.program ?? findBrowser();
    if (!program) throw new Error("there is no Chromium or Chrome here");
    const reasons: string[] = [];
    for (const around of await wallsFor(jail, reasons)) {
      try {
        return await startBrowser(program, { around, memoryMb: this.#limits.memoryMb, log });
      } catch (error) {
        reasons.push(`${program} does not start with ${wallsInWords[around.walls]} (${(error as Error).message})`);
      }
    }
    throw new Error(reasons.join("; "));
  }

  #takePlotlyPage(browser: BrowserProcess): Promise<Page> {
    const spare = this.#spare;
    this.#spare = undefined;
    return spare?.browser === browser ? spare.page : openPlotlyPage(browser);
  }

  #drawerDone(usedPlotly: boolean): void {
    this.#drawers -= 1;
    if (this.#drawers > 0 || this.#disposed) return;
    const browser = this.#process;
    if (!browser || browser.isGone) return;
    if (usedPlotly && !this.#spare) {
      const page = openPlotlyPage(browser);
      // Whoever takes it learns that it failed.
      page.catch(() => {});
      this.#spare = { browser, page };
    }
    this.#idleTimer = setTimeout(() => browser.kill("nobody needed it"), this.#limits.idleMs);
    this.#idleTimer.unref();
  }

  /** Once, and again when it changes. */
  #say(sentence: string): void {
    if (sentence !== this.#said) this.#options.log.info(sentence);
    this.#said = sentence;
  }
}

const wallsInWords: Record<Walls, string> = {
  double: "namespaces and its own sandbox",
  jail: "namespaces",
  own: "its own sandbox",
};

/** What to try. Pages are made by code that nobody trusts, so no browser runs them without any wall. */
async function wallsFor(jail: JailMode, reasons: string[]): Promise<BrowserWalls[]> {
  if (jail === "none") return [{ walls: "own" }];
  const { findIsolation } = await import("../jail/isolation.ts");
  const found = await findIsolation(jail);
  if ("obstacle" in found) {
    reasons.push(found.obstacle);
    return jail === "auto" ? [{ walls: "own" }] : [];
  }
  // A browser has processes of many kinds, whose own sandbox is more than Landlock around all of them.
  if (found.tier === "landlock") return [{ walls: "own" }];
  return [
    { walls: "double", isolation: found },
    { walls: "jail", isolation: found },
  ];
}
