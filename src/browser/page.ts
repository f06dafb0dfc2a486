import type { BrowserProcess } from "./process.ts";

/** If a page does not close within this time, the browser is killed. A busy machine takes seconds. */
const CLOSE_MS = 15_000;

/**
 * The longest side that models see, in pixels. A larger figure is scaled down to it; of a larger page, the beginning is
 * shown.
 */
export const MAX_SEEN_SIDE = 1_568;

export interface PageOptions {
  width: number;
  height: number;
  /** Whether the page's own scripts run. */
  scripts: boolean;
}

interface Rectangle {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** An empty page with its own cookies, storage and process. */
export class Page {
  readonly browser: BrowserProcess;
  readonly #contextId: string;
  readonly #sessionId: string;
  #closing: Promise<void> | undefined;

  constructor(browser: BrowserProcess, ids: { contextId: string; sessionId: string }) {
    this.browser = browser;
    this.#contextId = ids.contextId;
    this.#sessionId = ids.sessionId;
  }

  static async open(browser: BrowserProcess, { width, height, scripts }: PageOptions): Promise<Page> {
    const { devtools } = browser;
    const { browserContextId: contextId } = await devtools.call<{ browserContextId: string }>(
      "Target.createBrowserContext",
    );
    const { targetId } = await devtools.call<{ targetId: string }>("Target.createTarget", {
      url: "about:blank",
      browserContextId: contextId,
    });
    const { sessionId } = await devtools.call<{ sessionId: string }>("Target.attachToTarget", {
      targetId,
      flatten: true,
    });
    const page = new Page(browser, { contextId, sessionId });
    const metrics = { width, height, deviceScaleFactor: 1, mobile: false };
    await Promise.all([
      devtools.call("Browser.setDownloadBehavior", { behavior: "deny", browserContextId: contextId }),
      page.call("Inspector.enable"),
      page.call("Page.enable"),
      page.call("Emulation.setDeviceMetricsOverride", metrics),
      page.call("Emulation.setScriptExecutionDisabled", { value: !scripts }),
    ]);
    return page;
  }

  call<Result = unknown>(method: string, params: object = {}): Promise<Result> {
    return this.browser.devtools.call<Result>(method, params, this.#sessionId);
  }

  /** The value of an expression; a promise is awaited. The result is untrusted. */
  async evaluate(expression: string): Promise<unknown> {
    const { result, exceptionDetails } = await this.call<{
      result: { value?: unknown };
      exceptionDetails?: { text?: string; exception?: { description?: string; value?: unknown } };
    }>("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (!exceptionDetails) return result.value;
    const { text, exception } = exceptionDetails;
    throw new Error(String(exception?.description ?? exception?.value ?? text).slice(0, 300));
  }

  async setContent(html: string): Promise<void> {
    const { frameTree } = await this.call<{ frameTree: { frame: { id: string } } }>("Page.getFrameTree");
    await this.call("Page.setDocumentContent", { frameId: frameTree.frame.id, html });
  }

  /** PNG. */
  async screenshot(clip: Rectangle): Promise<Buffer> {
    const { data } = await this.call<{ data: string }>("Page.captureScreenshot", {
      format: "png",
      captureBeyondViewport: true,
      clip: { ...clip, scale: 1 },
    });
    return Buffer.from(data, "base64");
  }

  /** Also interrupts running scripts. Idempotent; never rejects. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const { devtools, kill } = this.browser;
    const timer = setTimeout(() => kill("a page could not be closed"), CLOSE_MS);
    try {
      await devtools.call("Target.disposeBrowserContext", { browserContextId: this.#contextId });
    } catch {
      // The browser is gone, and the page with it.
    } finally {
      clearTimeout(timer);
    }
  }
}
