import type { JailMode } from "../isolation/jail.ts";
import type { Log } from "../log.ts";
import { Semaphore } from "../semaphore.ts";
import { type FigureDrawer, openDrawer } from "./drawer.ts";
import { findBrowser } from "./find.ts";
import type { BrowserSandbox, SandboxKind } from "./launch.ts";
import type { Page } from "./page.ts";
import { openPlotlyPage } from "./plotly.ts";
import { type BrowserProcess, startBrowser } from "./process.ts";

/** Concurrent pages. More would only slow each other down. */
const MAX_PAGES = 3;
/** Back-off after a failed start: each attempt would delay a reply. */
const RETRY_AFTER_MS = 60_000;

/** Resource limits of drawing. */
export interface BrowserLimits {
  /** Deadline for all figures of one reply: a client is waiting, and text is the fallback. */
  replyMs: number;
  /** Deadline for one figure, once the browser runs. */
  figureMs: number;
  /** All processes of the browser. With one plotly page it takes about 300 MB. */
  memoryMb: number;
  /** An idle browser is ended after this time, to free its memory. */
  idleMs: number;
}

const defaultLimits: BrowserLimits = { replyMs: 30_000, figureMs: 15_000, memoryMb: 1_500, idleMs: 5 * 60_000 };

export interface BrowserOptions {
  jail: JailMode;
  log: Log;
  /** Default: the browser installed on this machine. */
  program?: string | undefined;
  limits?: Partial<BrowserLimits>;
}

/** One browser for all sessions: started for the first figure, and again after a crash. */
export class Browser {
  readonly #options: BrowserOptions;
  readonly #limits: BrowserLimits;
  #running: Promise<BrowserProcess> | undefined;
  #process: BrowserProcess | undefined;
  #spare: { browser: BrowserProcess; page: Promise<Page> } | undefined;
  readonly #pageSlots = new Semaphore(MAX_PAGES);
  #drawers = 0;
  #idleTimer: NodeJS.Timeout | undefined;
  #retryAtMs = 0;
  #disposed = false;
  #said = "";

  constructor(options: BrowserOptions) {
    this.#options = options;
    this.#limits = { ...defaultLimits, ...options.limits };
  }

  /** Draws the figures of one reply. */
  openDrawer(): FigureDrawer {
    clearTimeout(this.#idleTimer);
    this.#drawers += 1;
    return openDrawer({
      log: this.#options.log,
      limits: this.#limits,
      pageSlots: this.#pageSlots,
      running: () => this.running(),
      takePlotlyPage: (browser) => this.#takePlotlyPage(browser),
      done: (usedPlotly) => this.#drawerDone(usedPlotly),
    });
  }

  /** The browser, started if needed. Rejects if none can be started. */
  running(): Promise<BrowserProcess> {
    if (this.#disposed || performance.now() < this.#retryAtMs)
      return Promise.reject(new Error("no browser is available"));
    if (this.#process?.isGone) this.#running = undefined;
    this.#running ??= this.#start();
    return this.#running;
  }

  async dispose(): Promise<void> {
    this.#disposed = true;
    clearTimeout(this.#idleTimer);
    const running = await this.#running?.catch(() => undefined);
    running?.kill("shutdown");
    await running?.closed;
  }

  async #start(): Promise<BrowserProcess> {
    const { log } = this.#options;
    try {
      const started = await this.#startSandboxed();
      this.#process = started;
      void started.closed.then((reason) => {
        if (this.#spare?.browser === started) this.#spare = undefined;
        log.debug(`the browser for figures ended: ${reason}`);
      });
      if (this.#disposed) started.kill("shutdown");
      this.#say(`figures are drawn by a browser (${sandboxNames[started.sandbox]})`);
      return started;
    } catch (error) {
      this.#retryAtMs = performance.now() + RETRY_AFTER_MS;
      this.#running = undefined;
      this.#say(`figures are described in text, not drawn: ${error instanceof Error ? error.message : error}`);
      throw error;
    }
  }

  async #startSandboxed(): Promise<BrowserProcess> {
    const { jail, log } = this.#options;
    const program = this.#options.program ?? findBrowser();
    if (!program) throw new Error("no Chromium or Chrome was found");
    const reasons: string[] = [];
    for (const sandbox of await sandboxesToTry(jail, reasons)) {
      try {
        return await startBrowser(program, { sandbox, memoryMb: this.#limits.memoryMb, log });
      } catch (error) {
        reasons.push(`${program} does not start with ${sandboxNames[sandbox.kind]} (${(error as Error).message})`);
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
      // The rejection reaches the drawer that takes the page.
      page.catch(() => {});
      this.#spare = { browser, page };
    }
    this.#idleTimer = setTimeout(() => browser.kill("idle"), this.#limits.idleMs);
    this.#idleTimer.unref();
  }

  /** Logs a sentence, unless it is the same as the last one. */
  #say(sentence: string): void {
    if (sentence !== this.#said) this.#options.log.info(sentence);
    this.#said = sentence;
  }
}

const sandboxNames: Record<SandboxKind, string> = {
  double: "namespaces and its own sandbox",
  jail: "namespaces",
  own: "its own sandbox",
};

/** Sandboxes to try, best first. Pages come from untrusted code, so no browser runs without a sandbox. */
async function sandboxesToTry(jail: JailMode, reasons: string[]): Promise<BrowserSandbox[]> {
  if (jail === "none") return [{ kind: "own" }];
  const { findIsolation } = await import("../isolation/isolation.ts");
  const found = await findIsolation(jail);
  if ("obstacle" in found) {
    reasons.push(found.obstacle);
    return jail === "auto" ? [{ kind: "own" }] : [];
  }
  // Landlock around all browser processes would be weaker than the browser's own sandbox, which treats each kind apart.
  if (found.tier === "landlock") return [{ kind: "own" }];
  return [
    { kind: "double", isolation: found },
    { kind: "jail", isolation: found },
  ];
}
