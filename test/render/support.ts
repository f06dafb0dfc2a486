import { crc32, deflateSync } from "node:zlib";
import jpeg from "jpeg-js";
import { afterEach, beforeEach, vi } from "vitest";
import type { Browser } from "../../src/browser/browser.ts";
import type { LateOutput } from "../../src/engine/run/late-outputs.ts";
import type { Session } from "../../src/engine/session/session.ts";
import type { Execution, Output } from "../../src/execution.ts";
import { defaultOptions, type Options } from "../../src/options/options.ts";
import { render } from "../../src/render/reply.ts";
import type { ToolResult } from "../../src/render/result.ts";
import type { Store } from "../../src/store/store.ts";
import { openMemoryStore } from "../support/memory-store.ts";

export const SESSION = "abcdefghijklmnop";

// The clock stands still: on a busy machine the deadline of a reply's pictures would pass.
beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
afterEach(() => void vi.useRealTimers());

/** Renders a cell that showed these outputs. */
export async function renderCell(
  outputs: Output[],
  {
    options,
    late = [],
    queued = false,
    kernel,
    store = openMemoryStore(),
    browser,
    ...execution
  }: Partial<Execution> & {
    options?: Partial<Options>;
    late?: LateOutput[];
    queued?: boolean;
    kernel?: string;
    store?: Store;
    browser?: Browser;
  } = {},
) {
  const session = {
    id: SESSION,
    kernels: kernel ? [{ language: "python", description: kernel }] : [],
  } as unknown as Session;
  const result = await render(
    {
      type: "execution",
      session,
      late,
      queued,
      execution: {
        id: "execution-id",
        code: "",
        language: "python",
        status: "ok",
        executionCount: 3,
        outputs,
        files: [],
        notices: [],
        startedAt: "2026-11-15T12:00:00.000Z",
        durationMs: 432,
        ...execution,
      },
    },
    { options: { ...defaultOptions(), ...options }, store, browser },
  );
  return { result, store, ...looked(result) };
}

export function looked({ content }: ToolResult) {
  const texts = content.flatMap((block) => (block.type === "text" ? [block.text] : []));
  const images = content.flatMap((block) => (block.type === "image" ? [block] : []));
  const links = content.flatMap((block) => (block.type === "resource_link" ? [block] : []));
  return { text: texts.join(""), last: texts.at(-1) ?? "", images, links, shape: content.map(({ type }) => type) };
}

export const stdout = (text: string): Output => ({ type: "stream", name: "stdout", text });
export const stderr = (text: string): Output => ({ type: "stream", name: "stderr", text });
export const shown = (data: Record<string, unknown>): Output => ({ type: "display", data });
export const resultOf = (text: string): Output => ({ type: "result", data: { "text/plain": text } });
export const raised = (name: string, message: string, traceback = [`${name}: ${message}`]): Output => ({
  type: "error",
  name,
  message,
  traceback,
});

/** A picture with a white background, a black frame and a red diagonal; or noise, which does not compress. */
export function pixels(width: number, height: number, { noise = false, alpha = 255 } = {}): Uint8Array {
  if (noise) return noisePixels(width * height);
  const data = new Uint8Array(width * height * 4).fill(255);
  const draw = (x: number, y: number, color: number[]) => data.set(color, (y * width + x) * 4);
  for (let y = 0; y < height; y += 1) {
    for (let thick = 0; thick < 5; thick += 1) {
      draw(Math.min(width - 1, Math.floor((y * width) / height) + thick), y, [255, 0, 0]);
      draw(thick, y, [0, 0, 0]);
      draw(width - 1 - thick, y, [0, 0, 0]);
    }
  }
  if (alpha !== 255) for (let at = 3; at < data.length; at += 4) data[at] = alpha;
  return data;
}

function noisePixels(count: number): Uint8Array {
  const data = new Uint32Array(count);
  let state = 1;
  for (let at = 0; at < count; at += 1) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    data[at] = state | 0xff000000;
  }
  return new Uint8Array(data.buffer);
}

export function png(width: number, height: number, options: { noise?: boolean; alpha?: number } = {}): string {
  const data = pixels(width, height, options);
  const rows = Buffer.alloc(height * (1 + width * 4));
  for (let y = 0; y < height; y += 1)
    rows.set(data.subarray(y * width * 4, (y + 1) * width * 4), y * (1 + width * 4) + 1);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 6, 0, 0, 0], 8);
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  const chunks = [
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(rows, { level: 1 })),
    chunk("IEND", Buffer.alloc(0)),
  ];
  return Buffer.concat([signature, ...chunks]).toString("base64");
}

function chunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type), data]);
  const bytes = Buffer.alloc(named.length + 8);
  bytes.writeUInt32BE(data.length, 0);
  bytes.set(named, 4);
  bytes.writeUInt32BE(crc32(named), named.length + 4);
  return bytes;
}

export function jpg(width: number, height: number, options: { noise?: boolean } = {}): string {
  return jpeg.encode({ width, height, data: pixels(width, height, options) }, 95).data.toString("base64");
}
