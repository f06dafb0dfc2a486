import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { openDrawer } from "../../src/browser/drawer.ts";
import type { Page } from "../../src/browser/page.ts";
import type { BrowserProcess } from "../../src/browser/process.ts";
import { Semaphore } from "../../src/semaphore.ts";

const limits = { replyMs: 30_000, figureMs: 15_000 };
const figure = { type: "plotly" as const, figure: { data: [], layout: {} } };
const picture = Buffer.from("picture");

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** The outcome for a figure, if the browser takes this long to open a page, and the page this long to draw. */
async function draw({ openMs, drawMs }: { openMs: number; drawMs: number }): Promise<Buffer | undefined> {
  const said: string[] = [];
  const say = (message: string) => void said.push(message);
  let isClosed = false;
  const page = {
    async evaluate() {
      await after(drawMs);
      if (isClosed) throw new Error("the page is gone");
      return `data:image/png;base64,${picture.toString("base64")}`;
    },
    async close() {
      isClosed = true;
    },
  } as unknown as Page;
  const browser = {
    isGone: false,
    watch: () => ({ isAlone: () => true, stop() {} }),
  } as unknown as BrowserProcess;
  const drawer = openDrawer({
    log: { error: say, warn: say, info: say, debug: say },
    limits,
    pageSlots: new Semaphore(1),
    running: async () => browser,
    takePlotlyPage: () => after(openMs).then(() => page),
    done() {},
  });
  const drawing = drawer.draw(figure);
  await vi.advanceTimersByTimeAsync(openMs + drawMs + limits.replyMs);
  return (await drawing)?.bytes;
}

const after = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

test("a browser that is slow to open its first page does not use up the time of the figure", async () => {
  expect(await draw({ openMs: 20_000, drawMs: 5_000 })).toEqual(picture);
});

test("a page that does not open before the deadline is not waited for", async () => {
  expect(await draw({ openMs: 31_000, drawMs: 1 })).toBeUndefined();
});

test("a figure that takes too long is aborted", async () => {
  expect(await draw({ openMs: 1, drawMs: 16_000 })).toBeUndefined();
});
