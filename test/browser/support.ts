import { spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { decode } from "fast-png";
import { Browser, type BrowserOptions } from "../../src/browser/browser.ts";
import type { Figure } from "../../src/browser/drawer.ts";
import type { Output } from "../../src/execution.ts";

const root = join(import.meta.dirname, "../..");

/** What cells show when this Python runs them with the prelude, one list for each cell. */
export async function runCells(python: string, cells: string[], env: Record<string, string> = {}): Promise<Output[][]> {
  const script = join(root, "test/kernels/plots/fixtures/cpython_cells.py");
  const child = spawn(python, [script, join(root, "src/kernels/python/prelude")], {
    env: { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "", PYTHONDONTWRITEBYTECODE: "1", ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  child.stdin.end(JSON.stringify(cells));
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if (stdout === "") throw new Error(stderr);
  return JSON.parse(stdout);
}

/** Longer than a test may take: a slow machine is not a failure. */
const patient = { figureMs: 600_000, replyMs: 600_000 };

/** A browser that records its log messages, with long timeouts. */
export function openBrowser({ limits, ...options }: Partial<BrowserOptions> = {}) {
  const said: string[] = [];
  const say = (message: string) => void said.push(message);
  const log = { error: say, warn: say, info: say, debug: say };
  return { browser: new Browser({ jail: "auto", log, limits: { ...patient, ...limits }, ...options }), said };
}

/** Draws figures as for one reply. */
export async function drawOne(browser: Browser, figure: Figure) {
  const drawer = browser.openDrawer();
  try {
    return await drawer.draw(figure);
  } finally {
    drawer.close();
  }
}

export interface Look {
  width: number;
  height: number;
  /** The number of colours. */
  colours: number;
  /** The share of pixels of this colour, `#rrggbb`. */
  share(colour: string): number;
}

/** Facts about a picture. */
export function look(png: Uint8Array | undefined): Look {
  if (!png) throw new Error("there is no picture");
  const { width, height, data, channels } = decode(png);
  const counts = new Map<string, number>();
  for (let at = 0; at < data.length; at += channels) {
    const [red = 0, green = 0, blue = 0] = data.subarray(at, at + 3);
    const colour = `#${((red << 16) | (green << 8) | blue).toString(16).padStart(6, "0")}`;
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  return { width, height, colours: counts.size, share: (colour) => (counts.get(colour) ?? 0) / (width * height) };
}
