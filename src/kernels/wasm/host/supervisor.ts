/**
 * Main isolate of a kernel's process. It never runs user code: it owns stdin, stdout and the interrupt buffer, which a
 * worker busy with a synchronous cell could not listen to.
 */
import process from "node:process";
import { deno, startWorker } from "./deno.ts";
import type { Command, Report, StartCommand } from "./frames.ts";
import { InterruptSender } from "./interrupts.ts";
import { LineSplitter } from "./lines.ts";
import { Outbox } from "./outbox.ts";
import { createRing, RingReader } from "./ring.ts";
import type { WorkerCommand, WorkerStarted } from "./worker.ts";

/** A worker that is not in a synchronous cell comes to its event loop within this time. */
const TURN_MS = 150;
/** How long a cell that survived its cancellation is watched, in case it computes now. Our process kills it after that. */
const STOP_ATTEMPT_MS = 2_000;
/** How often a running cell's output is collected: soon enough to watch it, seldom enough to come in bulk. */
const LOOK_MS = 10;

const encoder = new TextEncoder();
const commands = readCommands();
const start = (await commands.next()).value as StartCommand;

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

const worker = startWorker(new URL(import.meta.url.endsWith(".ts") ? "./worker.ts" : "./worker.js", import.meta.url), {
  read: [
    ...[start.pyodideDir, start.workspaceDir, start.siteDir, start.imageDir ?? []].flat(),
    ...start.readable.map(({ root }) => root),
  ],
  // The workspace, without what --deny-write names below it; a list here could not leave that out.
  write: "inherit",
  net: false,
  env: false,
  run: false,
  sys: false,
  ffi: false,
  import: false,
});
worker.onmessage = (event) => {
  // After the first message, anything posted is a doorbell: what it says could be forged and is not looked at.
  if (ready) void pump();
  else started(event.data as WorkerStarted);
};
worker.onerror = (event) => {
  event.preventDefault();
  breakDown(ready ? `an error in its event loop: ${event.message}` : event.message);
};

const snapshot = deno.readFileSync(start.snapshotFile);
tellWorker(
  {
    op: "start",
    ring: shared,
    interrupts: interrupts.shared,
    snapshot,
    pyodideDir: start.pyodideDir,
    workspaceDir: start.workspaceDir,
    siteDir: start.siteDir,
    imageDir: start.imageDir,
    readable: start.readable,
    diskBytes: start.diskBytes,
  },
  [snapshot.buffer],
);

for await (const command of commands) handle(command as Command);
// The parent is gone. A live worker would keep this process running, so leave by hand.
deno.exit(0);

async function* readCommands(): AsyncGenerator<unknown, undefined> {
  const splitter = new LineSplitter(Number.POSITIVE_INFINITY);
  for await (const chunk of deno.stdin.readable) {
    for (const line of splitter.push(chunk)) {
      const command = parse(line);
      if (command !== undefined) yield command;
    }
  }
  return undefined;
}

/** User code can read from our stdin: what is left of a line it took a bite of is skipped. */
function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function handle(command: Command): void {
  if (command.op === "execute") {
    runningCell = command.cell;
    void send([{ type: "ack", cell: command.cell }]);
    // With the count: one that came too late for the cell before must not hit this one.
    tellWorker({ op: "execute", cell: command.cell, request: command.request, interrupts: interrupts.sent });
  } else if (command.op === "interrupt") {
    void stopCell(command.cell);
  } else if (command.op === "ask") {
    tellWorker({ op: "ask", id: command.id, question: command.question });
  } else if (command.op === "ping") {
    void send([pulse()]);
    tellWorker({ op: "ping" });
  }
}

function pulse(): Report {
  const alive = ring.beats !== lastBeats;
  lastBeats = ring.beats;
  const cpu = process.cpuUsage();
  return { type: "pulse", alive, rssBytes: deno.memoryUsage().rss, cpuMs: (cpu.user + cpu.system) / 1000 };
}

function started(message: WorkerStarted): void {
  if (message.failed !== undefined) return void send([{ type: "failed", message: message.failed }]);
  ready = true;
  void send([{ type: "ready", python: message.python }]);
  void pump();
}

/**
 * First cancels what the cell waits for. Python is interrupted only when the worker then does not come to its event
 * loop, for as long as this takes: a KeyboardInterrupt that lands in the loop instead of the cell would break it.
 */
async function stopCell(cell: number): Promise<void> {
  if (runningCell === cell) tellWorker({ op: "cancel" });
  const giveUpAt = performance.now() + STOP_ATTEMPT_MS;
  while (runningCell === cell && performance.now() < giveUpAt) {
    const { turns } = ring;
    const isStuck = async () => {
      await new Promise((resolve) => setTimeout(resolve, TURN_MS));
      return runningCell === cell && ring.turns === turns;
    };
    tellWorker({ op: "ping" });
    if (!(await isStuck())) continue;
    interrupts.send();
    // A worker that was only slow comes to its event loop now, and has dropped it.
    if (await isStuck()) return;
  }
}

/**
 * Forwards what the worker wrote until there is nothing more. While a cell runs it then looks again by itself, so that
 * a million small prints do not cost a million wake-ups.
 */
async function pump(): Promise<void> {
  if (pumping || broken) return;
  pumping = true;
  clearTimeout(nextLook);
  try {
    for (;;) {
      const { reports, more } = outbox.take();
      for (const report of reports) noteEnd(report);
      if (reports.length > 0) await send(reports);
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

function noteEnd(report: Report): void {
  if (report.type !== "event" || report.cell !== runningCell) return;
  const event = report.event as { type?: unknown } | null;
  if (event?.type === "done") runningCell = undefined;
}

function breakDown(reason: string): void {
  broken = true;
  void send([{ type: "broken", reason }]);
}

/**
 * Lines leave in call order and without blocking this isolate, which has to hear an interrupt during a flood. Each
 * begins on a line of its own, whatever user code has written to our stdout before.
 */
function send(reports: Report[]): Promise<void> {
  const lines = reports.map((report) => `\n${start.nonce} ${JSON.stringify(report)}\n`);
  sending = sending.then(() => writeAll(encoder.encode(lines.join(""))));
  return sending;
}

async function writeAll(bytes: Uint8Array): Promise<void> {
  let rest = bytes;
  while (rest.length > 0) rest = rest.subarray(await deno.stdout.write(rest));
}

function tellWorker(command: WorkerCommand, transfer: ArrayBuffer[] = []): void {
  worker.postMessage(command, transfer);
}
