import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

/**
 * Memory limit for drawing one SVG: the picture in full size, and again for each group that needs a layer. WebAssembly
 * memory does not count towards a thread's limits, and a hostile SVG can need gigabytes.
 */
const MAX_MEMORY_PAGES = 4_096; // of 64 KiB: 256 MB

/** A compiled WebAssembly module, which can be sent to a thread. */
export type SvgEngine = object;

let compiled: Promise<SvgEngine> | undefined;

/** The renderer, compiled once for all threads. */
export function svgEngine(): Promise<SvgEngine> {
  compiled ??= compile().catch((error) => {
    compiled = undefined;
    throw error;
  });
  return compiled;
}

async function compile(): Promise<SvgEngine> {
  const file = createRequire(import.meta.url).resolve("@resvg/resvg-wasm/index_bg.wasm");
  return WebAssembly.compile(withMemoryLimit(await readFile(file), MAX_MEMORY_PAGES));
}

const HEADER_BYTES = 8;
const MEMORY_SECTION = 5;

/** The same module with a maximum in its memory section (`count, flags, minimum, maximum`). */
export function withMemoryLimit(program: Uint8Array, maxPages: number): Uint8Array<ArrayBuffer> {
  for (let at = HEADER_BYTES; at < program.length; ) {
    const size = readNumber(program, at + 1);
    const end = size.end + size.value;
    if (program[at] === MEMORY_SECTION) {
      const minimum = readNumber(program, size.end + 2);
      if (program[size.end] !== 1 || minimum.value > maxPages) break;
      const section = [1, 1, ...numberBytes(minimum.value), ...numberBytes(maxPages)];
      const before = program.subarray(0, at);
      return Buffer.concat([before, Buffer.from([MEMORY_SECTION, section.length, ...section]), program.subarray(end)]);
    }
    at = end;
  }
  throw new Error("The SVG renderer has no memory section to limit.");
}

/** LEB128: groups of seven bits, the lowest first. */
function readNumber(bytes: Uint8Array, start: number): { value: number; end: number } {
  let value = 0;
  let end = start;
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[end++] ?? 0;
    value += (byte & 127) * 2 ** shift;
    if (byte < 128) return { value, end };
  }
}

function numberBytes(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...numberBytes(Math.floor(value / 128))];
}

/** Node's types do not include it. */
declare const WebAssembly: { compile(program: Uint8Array): Promise<SvgEngine> };
