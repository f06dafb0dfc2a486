import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { createScaler } from "../../src/render/pictures/scaler.ts";
import { png } from "./support.ts";

/** The worker thread as shipped: compiled. */
describe("the picture thread", () => {
  const workerUrl = new URL("../../dist/render/pictures/worker.js", import.meta.url);

  const limits = { mimeType: "image/png", maxSide: 100, maxBytes: 100_000 } as const;
  const bytes = Buffer.from(png(400, 200), "base64");

  test("scales one picture after another, and goes on after a broken one", async () => {
    const scaler = createScaler({ workerUrl });
    expect(await scaler.scale({ bytes, ...limits })).toMatchObject({ width: 100, height: 50, mimeType: "image/png" });
    expect(await scaler.scale({ bytes: bytes.subarray(0, 60), ...limits })).toBeUndefined();
    expect(await scaler.scale({ bytes, ...limits })).toMatchObject({ width: 100, height: 50 });
    await scaler.close();
  });

  test("is aborted at the deadline", async () => {
    const scaler = createScaler({ workerUrl, deadlineMs: 30 });
    const large = Buffer.from(png(2_000, 2_000), "base64");
    expect(await scaler.scale({ bytes: large, ...limits })).toBeUndefined();
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

  test("is aborted while it draws an endless page, and the main thread is not blocked meanwhile", async () => {
    const blurs = '<filter id="f"><feGaussianBlur stdDeviation="9"/><feTurbulence numOctaves="200"/></filter>';
    const slow = page(blurs + '<rect width="600" height="600" filter="url(#f)"/>'.repeat(2_000));
    const scaler = createScaler({ workerUrl, deadlineMs: 1_000 });
    const drawing = scaler.draw({ svg: slow, maxSide: 1_500 });
    let isOver = false;
    drawing.finally(() => {
      isOver = true;
    });
    let turns = 0;
    for (; !isOver; turns += 1) await nextTurn();
    expect(await drawing).toBeUndefined();
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
