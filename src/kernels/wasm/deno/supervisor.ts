/**
 * Main isolate of a kernel's process. Never runs user code. It owns stdin, stdout and the interrupt buffer, because a
 * worker cannot listen while it runs a synchronous cell.
 */
import { Buffer } from "node:buffer";
import process from "node:process";
import { deno, startWorker } from "./deno.ts";
import { type Command, parseCommand, type Report, type StartCommand } from "./frames.ts";
import { InterruptSender } from "./interrupts.ts";
import { LineSplitter } from "./lines.ts";
import { Outbox, type Parcel } from "./outbox.ts";
import { createRing, RingReader } from "./ring.ts";
import type { WorkerCommand, WorkerStart, WorkerStarted } from "./worker.ts";

/** Poll interval for a running cell's output: short enough to follow it live, long enough to batch it. */
const LOOK_MS = 10;

const encoder = new TextEncoder();
const end = encoder.encode("\n");
const lines = readLines();
const { nonce, snapshotFile, ...start }: StartCommand = JSON.parse((await lines.next()).value ?? "");

const shared = createRing();
const ring = new RingReader(shared);
const outbox = new Outbox(ring);
const interrupts = new InterruptSender();
let pumping = false;
let broken = false;
let lastBeats = 0;
let runningCell: number | undefined;
let ready = false;
let nextLook: ReturnType<typeof setTimeout> | undefined;
let sending = Promise.resolve();
let lineCount = 0;

const worker = startWorker(new URL(import.meta.url.endsWith(".ts") ? "./worker.ts" : "./worker.js", import.meta.url), {
  read: [
    ...[start.pyodideDir, start.workspaceDir, start.siteDir, start.imageDir ?? []].flat(),
    ...start.readable.map(({ root }) => root),
  ],
  // Inherited, because a list could not express --deny-write paths below the workspace.
  write: "inherit",
  net: false,
  env: false,
  run: false,
  sys: false,
  ffi: false,
  import: false,
});
worker.onmessage = (event) => {
  // After the first message, each one is only a doorbell: its content could be forged and is ignored.
  if (ready) void pump();
  else started(event.data as WorkerStarted);
};
worker.onerror = (event) => {
  event.preventDefault();
  breakDown(ready ? `an error in its event loop: ${event.message}` : event.message);
};

const snapshot = deno.readFileSync(snapshotFile);
const workerStart: WorkerStart = { ...start, ring: shared, interrupts: interrupts.shared, snapshot };
worker.postMessage(workerStart, [snapshot.buffer]);

for await (const line of lines) {
  const command = parseCommand(line);
  if (command) handle(command);
  lineCount += 1;
}
// The parent is gone. A live worker would keep this process running, so exit explicitly.
deno.exit(0);

async function* readLines(): AsyncGenerator<string, undefined> {
  const splitter = new LineSplitter(Number.POSITIVE_INFINITY);
  for await (const chunk of deno.stdin.readable) yield* splitter.push(chunk);
  return undefined;
}

function handle(command: Command): void {
  if (command.op === "ping") {
    // User code can read from this process's stdin.
    if (command.id !== lineCount) breakDown("user code has read its input");
    else void report({ type: "pulse", id: 0, value: pulse() });
  } else if (command.op === "execute") {
    runningCell = command.id;
  } else if (command.op === "interrupt") {
    if (command.id !== runningCell) return;
    // This reaches Python while it computes; the message below reaches it while it waits in its event loop.
    interrupts.send(command.id);
  }
  worker.postMessage({ ...command, interrupts: interrupts.sent } satisfies WorkerCommand);
}

function pulse(): { alive: boolean; rssBytes: number; cpuMs: number } {
  const alive = ring.beats !== lastBeats;
  lastBeats = ring.beats;
  const cpu = process.cpuUsage();
  return { alive, rssBytes: deno.memoryUsage().rss, cpuMs: (cpu.user + cpu.system) / 1000 };
}

function started(message: WorkerStarted): void {
  if (message.failed !== undefined) return void report({ type: "failed", id: 0, value: message.failed });
  ready = true;
  void report({ type: "ready", id: 0, value: message.python });
  void pump();
}

/**
 * Forwards the worker's output until the ring is empty. While a cell runs it then polls, so that a million small prints
 * do not cost a million wake-ups.
 */
async function pump(): Promise<void> {
  if (pumping || broken) return;
  pumping = true;
  clearTimeout(nextLook);
  try {
    for (;;) {
      const { parcels, more } = outbox.take();
      if (parcels.some(({ type, id }) => type === "done" && id === runningCell)) runningCell = undefined;
      if (parcels.length > 0) await send(parcels);
      if (more) continue;
      if (runningCell === undefined ? ring.sleep() : ring.doze()) break;
    }
    if (runningCell !== undefined) nextLook = setTimeout(pump, LOOK_MS);
  } catch (error) {
    breakDown(`garbage in its output: ${error instanceof Error ? error.message : error}`);
  } finally {
    pumping = false;
  }
}

function breakDown(reason: string): void {
  broken = true;
  void report({ type: "broken", id: 0, value: reason });
}

function report({ type, id, value }: Report): Promise<void> {
  return send([{ type, id, json: encoder.encode(JSON.stringify(value)) }]);
}

/**
 * Sends lines in call order and without blocking this isolate, which has to receive interrupts during a flood. Each
 * starts on a new line, because user code may have written to stdout before.
 */
function send(parcels: (Omit<Parcel, "type"> & { type: Report["type"] })[]): Promise<void> {
  const pieces = parcels.flatMap(({ type, id, json }) => [encoder.encode(`\n${nonce} ${type} ${id} `), json, end]);
  sending = sending.then(() => writeAll(Buffer.concat(pieces)));
  return sending;
}

async function writeAll(bytes: Uint8Array): Promise<void> {
  let rest = bytes;
  while (rest.length > 0) rest = rest.subarray(await deno.stdout.write(rest));
}
