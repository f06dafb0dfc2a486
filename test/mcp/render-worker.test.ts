import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createScaler } from "../../src/mcp/render/scaler.ts";
import { png } from "./render-support.ts";

/** The thread as it is shipped: compiled. Inside the repository, so that it finds its packages. */
describe("the picture thread", () => {
  const root = join(import.meta.dirname, "..", "..");
  let out = "";
  let workerUrl = new URL("file:///");

  beforeAll(() => {
    out = mkdtempSync(join(root, "node_modules", ".picture-worker-"));
    const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
    const source = join(root, "src", "mcp", "render", "picture-worker.ts");
    const flags = ["--ignoreConfig", "--module", "nodenext", "--target", "es2023", "--skipLibCheck", "--types", "node"];
    const paths = ["--rewriteRelativeImportExtensions", "--rootDir", join(root, "src"), "--outDir", out];
    execFileSync(process.execPath, [tsc, source, ...flags, ...paths], { cwd: root, stdio: "pipe" });
    workerUrl = pathToFileURL(join(out, "mcp", "render", "picture-worker.js"));
  });
  afterAll(() => rmSync(out, { recursive: true, force: true }));

  const limits = { mimeType: "image/png", maxSide: 100, maxBytes: 100_000 } as const;
  const bytes = Buffer.from(png(400, 200), "base64");

  test("scales one picture after another, and goes on after a broken one", async () => {
    const scaler = createScaler({ workerUrl });
    expect(await scaler.scale({ bytes, ...limits })).toMatchObject({ width: 100, height: 50, mimeType: "image/png" });
    expect(await scaler.scale({ bytes: bytes.subarray(0, 60), ...limits })).toBeUndefined();
    expect(await scaler.scale({ bytes, ...limits })).toMatchObject({ width: 100, height: 50 });
    await scaler.close();
  });

  test("is given up at the deadline", async () => {
    const scaler = createScaler({ workerUrl, deadlineMs: 30 });
    const large = Buffer.from(png(2_000, 2_000), "base64");
    const started = performance.now();
    expect(await scaler.scale({ bytes: large, ...limits })).toBeUndefined();
    expect(performance.now() - started).toBeLessThan(2_000);
    expect(await scaler.scale({ bytes, ...limits })).toBeUndefined();
    await scaler.close();
  });

  const page = (inside: string) =>
    Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" width="600" height="600">${inside}</svg>`);
  const square = '<rect width="600" height="600" fill="red"/>';
  const bombs = {
    "needs gigabytes": page('<g opacity="0.9">'.repeat(500) + square + "</g>".repeat(500)),
    "goes through 20 000 references": page(
      `<clipPath id="c0">${square}</clipPath>${chainOf(20_000)}<g clip-path="url(#c19999)"/>`,
    ),
  };

  test.each(Object.entries(bombs))("draws the next page after one that %s", async (_, bomb) => {
    const scaler = createScaler({ workerUrl, deadlineMs: 50_000 });
    let peak = 0;
    const watch = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage().rss);
    }, 20);
    const before = process.memoryUsage().rss;
    await scaler.draw({ svg: bomb, maxSide: 1_500 });
    clearInterval(watch);
    expect(peak - before).toBeLessThan(800_000_000);
    expect(await scaler.draw({ svg: page(square), maxSide: 1_500 })).toMatchObject({ width: 600, height: 600 });
    await scaler.close();
  });

  test("is given up while it draws a page without end, and meanwhile our own thread goes on", async () => {
    const blurs = '<filter id="f"><feGaussianBlur stdDeviation="9"/><feTurbulence numOctaves="200"/></filter>';
    const slow = page(blurs + '<rect width="600" height="600" filter="url(#f)"/>'.repeat(2_000));
    const scaler = createScaler({ workerUrl, deadlineMs: 1_000 });
    let turns = 0;
    const watch = setInterval(() => {
      turns += 1;
    }, 10);
    const started = performance.now();
    expect(await scaler.draw({ svg: slow, maxSide: 1_500 })).toBeUndefined();
    clearInterval(watch);
    expect(performance.now() - started).toBeLessThan(3_000);
    expect(turns).toBeGreaterThan(20);
    await scaler.close();
  });
});

function chainOf(length: number): string {
  let chain = "";
  for (let at = 1; at < length; at += 1) {
    chain += `<clipPath id="c${at}" clip-path="url(#c${at - 1})"><rect width="9" height="9"/></clipPath>`;
  }
  return chain;
}
