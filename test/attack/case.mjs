// The parts of a case, and its assertions.
import { randomBytes } from "node:crypto";

/** A probe succeeded, or an expectation was not met. */
export class Failure extends Error {
  /** Others were affected: the server, another session, the machine. */
  hurt = false;
}
/** A control that did not succeed: the probe proves nothing. */
export class Invalid extends Error {}
/** A control that only root can run: ordinary users still try the probe. */
export class NeedsRoot extends Error {}

export function expect(condition, message) {
  if (!condition) throw new Failure(message);
}

/** Like `expect`, for failures that affect others than the session that caused them. */
export function protects(condition, message) {
  if (!condition) throw Object.assign(new Failure(message), { hurt: true });
}

/** For controls. */
export function proves(condition, message) {
  if (!condition) throw new Invalid(message);
}

export function randomFlag() {
  return `flag${randomBytes(9).toString("hex")}`;
}

/** @param {{ address(): unknown }} server that listens on a port */
export const portOf = (server) => /** @type {import("node:net").AddressInfo} */ (server.address()).port;

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function until(what, condition, timeoutMs = 10_000) {
  const deadline = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Failure(`waited ${timeoutMs / 1000} s for ${what}`);
    await sleep(50);
  }
}

export async function timed(work) {
  const begin = performance.now();
  const value = await work();
  return { value, ms: performance.now() - begin };
}

/** Processes a list with limited concurrency. */
export async function inLanes(items, lanes, work) {
  const waiting = [...items];
  const lane = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await work(item);
  };
  await all(Array.from({ length: lanes }, lane));
}

/** Waits for all of them, then fails with the first failure: nothing continues into the next case. */
export async function all(promises) {
  const ends = await Promise.allSettled(promises);
  const failed = ends.find((end) => end.status === "rejected");
  if (failed) throw failed.reason;
  return ends.map((end) => end.status === "fulfilled" && end.value);
}

export function short(text, chars = 160) {
  const line = String(text).replaceAll(/\s+/g, " ").trim();
  return line.length > chars ? `${line.slice(0, chars)}…` : line;
}

/** Cell that runs JavaScript in the kernel and shows what it returns; `W` is the real path of the workspace. */
export function js(code) {
  const body = `(async () => {
    const late = new Promise((resolve) => setTimeout(resolve, 4000, "LATE"));
    try { return String(await Promise.race([(async () => { ${code} })(), late])); }
    catch (error) { return "DENIED " + (error?.name ?? "") + ": " + String(error?.message ?? error).slice(0, 200); }
  })()`;
  return [
    "from pyodide.code import run_js",
    "import js, pyodide_js",
    'js.W = pyodide_js.FS.lookupPath("/workspace").node.mount.opts.root',
    `await run_js(${pythonText(body)})`,
  ].join("\n");
}

export function pythonText(text) {
  return JSON.stringify(text).replaceAll("\u007f", "\\u007f");
}

/**
 * JavaScript that takes over the memory through which a kernel's worker reports, and can then forge any message:
 * `say(cell, event)`, `record(kind, tag, bytes, last)`, `header` (0 written, 1 read, 2 reader's state, 4 urgent).
 */
export const stealRing = `
  const A = { add: Atomics.add, load: Atomics.load, store: Atomics.store, wait: Atomics.wait, exchange: Atomics.exchange };
  const header = await new Promise((resolve) => {
    Atomics.add = (array, ...rest) => { Atomics.add = A.add; resolve(array); return A.add(array, ...rest); };
  });
  const words = new Int32Array(header.buffer, 64), bytes = new Uint8Array(header.buffer, 64), SIZE = 1 << 20;
  const wake = () => { if (A.exchange(header, 2, 0) !== 0) postMessage(null); };
  const record = (kind, tag, payload, last = true) => {
    const size = 12 + Math.ceil(payload.length / 4) * 4;
    for (;;) {
      const read = A.load(header, 1);
      if (SIZE - ((A.load(header, 0) - read) >>> 0) >= size) break;
      wake();
      A.wait(header, 1, read, 20);
    }
    const at = A.load(header, 0), word = (offset) => (((at + offset) >>> 0) % SIZE) / 4;
    words[word(0)] = payload.length;
    words[word(4)] = kind | (last ? 256 : 0);
    words[word(8)] = tag;
    for (let done = 0, to = ((at + 12) >>> 0) % SIZE; done < payload.length; to = 0) {
      const count = Math.min(payload.length - done, SIZE - to);
      bytes.set(payload.subarray(done, done + count), to);
      done += count;
    }
    A.store(header, 0, (at + size) | 0);
    if (kind > 2) A.add(header, 4, 1);
    wake();
  };
  const put = (kind, tag, text) => {
    const payload = new TextEncoder().encode(text);
    let start = 0;
    do {
      const end = Math.min(start + 65536, payload.length);
      record(kind, tag, payload.subarray(start, end), end === payload.length);
      start = end;
    } while (start < payload.length);
  };
  const say = (cell, event) => put(3, cell, JSON.stringify(event));
`;
