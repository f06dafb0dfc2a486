import { diskUse, namelessBytes } from "./disk-use.ts";
import { OLD_SPACE_MB } from "./launch.ts";
import { findWorkerThread, readVitals, threadIsGone, type Vitals, writtenBytes } from "./vitals.ts";

const BUSY_LOOK_MS = 100;
const IDLE_LOOK_MS = 1_000;
const PING_MS = 250;
/** Deno and Pyodide themselves, with room: an idle kernel takes 180 MB. */
const OWN_MB = 300;
/** Where there is no `/proc` to see the worker's thread in: silent for so long without using the processor is dead. */
const SILENCE_MS = 1_500;
const SILENT_CPU_MS = 30;
const DISK_LOOK_MS = 500;
/** The disk is measured for at most a tenth of the time. */
const DISK_LOOK_SHARE = 10;
/** How far a folder may be over its limit: Python is refused at the limit, so this is somebody who went around it. */
const DISK_SLACK_BYTES = 32 * 1024 * 1024;

/** Between cells a kernel writes next to nothing; more than this is worth a look at the disk. */
const WRITTEN_SLACK_BYTES = 1024 * 1024;

export interface Watched {
  pid: number;
  memoryMb: number;
  diskMb: number;
  /** All that the kernel can write to. */
  folders: string[];
  isBusy(): boolean;
  /** Nothing is read from the kernel at the moment, so its silence says nothing. */
  isHeldBack(): boolean;
  ping(): void;
  /** Called once, with a sentence. */
  condemn(reason: string): void;
}

/** Ends what V8's and Pyodide's own limits do not: JavaScript buffers, a worker that died in silence, a full disk. */
export class Watchdog {
  readonly #watched: Watched;
  readonly #rssLimitMb: number;
  readonly #workerThread: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;
  #wasGone = false;
  #pingedAt = 0;
  #aliveAt = performance.now();
  #cpuWhenAliveMs = 0;
  #reported: Vitals | undefined;
  #diskLookAfter = 0;
  #writtenBytes = 0;
  #diskMayHaveGrown = false;
  #diskLimitBytes: number;

  constructor(watched: Watched) {
    this.#watched = watched;
    this.#rssLimitMb = watched.memoryMb + OLD_SPACE_MB + OWN_MB;
    this.#diskLimitBytes = watched.diskMb * 1024 * 1024 + DISK_SLACK_BYTES;
    this.#workerThread = findWorkerThread(watched.pid);
  }

  async start(): Promise<void> {
    this.#schedule();
    // What is in the folders already is not this kernel's doing, and must not be its end.
    const used = await diskUse(this.#watched.folders, Number.POSITIVE_INFINITY);
    this.#diskLimitBytes = Math.max(this.#diskLimitBytes, used + DISK_SLACK_BYTES);
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  /** The supervisor answered a ping. */
  heard(pulse: Vitals & { alive: boolean }): void {
    this.#reported = pulse;
    if (!pulse.alive) return;
    this.#aliveAt = performance.now();
    this.#cpuWhenAliveMs = pulse.cpuMs;
  }

  /** A cell begins: from now on look more often. */
  cellBegins(): void {
    this.#diskMayHaveGrown = true;
    clearTimeout(this.#timer);
    this.#schedule();
  }

  #schedule(): void {
    this.#timer = setTimeout(() => this.#look(), this.#watched.isBusy() || this.#wasGone ? BUSY_LOOK_MS : IDLE_LOOK_MS);
    this.#timer.unref();
  }

  #look(): void {
    if (this.#stopped) return;
    const reason = this.#memoryReason() ?? this.#silenceReason();
    if (reason) {
      this.#condemn(reason);
      return;
    }
    if (performance.now() - this.#pingedAt >= PING_MS) {
      this.#pingedAt = performance.now();
      this.#watched.ping();
    }
    if (this.#diskMayHaveGrown || this.#hasWritten()) void this.#lookAtDisk();
    this.#schedule();
  }

  /** A timer that a cell left behind can write, too. */
  #hasWritten(): boolean {
    const written = writtenBytes(this.#watched.pid);
    const more = written - this.#writtenBytes > WRITTEN_SLACK_BYTES;
    if (more) this.#writtenBytes = written;
    return more;
  }

  #memoryReason(): string | undefined {
    const vitals = readVitals(this.#watched.pid) ?? this.#reported;
    if (!vitals || vitals.rssBytes <= this.#rssLimitMb * 1024 * 1024) return undefined;
    return `The kernel ran out of memory: its process grew beyond ${this.#rssLimitMb} MB.`;
  }

  #silenceReason(): string | undefined {
    if (this.#workerThread) {
      // Threads also go first when the whole process is about to end, which is then no silent end: look twice.
      const gone = threadIsGone(this.#workerThread);
      const reason = gone && this.#wasGone ? SILENT_END : undefined;
      this.#wasGone = gone;
      return reason;
    }
    if (!this.#reported || this.#watched.isHeldBack()) return undefined;
    const silent = performance.now() - this.#aliveAt > SILENCE_MS;
    return silent && this.#reported.cpuMs - this.#cpuWhenAliveMs < SILENT_CPU_MS ? SILENT_END : undefined;
  }

  async #lookAtDisk(): Promise<void> {
    const begin = performance.now();
    if (begin < this.#diskLookAfter) return;
    this.#diskLookAfter = Number.POSITIVE_INFINITY;
    this.#diskMayHaveGrown = this.#watched.isBusy();
    const nameless = await namelessBytes(this.#watched.pid);
    const used = nameless + (await diskUse(this.#watched.folders, this.#diskLimitBytes - nameless));
    const tookMs = performance.now() - begin;
    this.#diskLookAfter = begin + Math.max(DISK_LOOK_MS, tookMs * DISK_LOOK_SHARE);
    if (used > this.#diskLimitBytes) {
      this.#condemn(`The kernel was ended because its files grew beyond the limit of ${this.#watched.diskMb} MB.`);
    }
  }

  #condemn(reason: string): void {
    if (this.#stopped) return;
    this.stop();
    this.#watched.condemn(reason);
  }
}

const SILENT_END = "The kernel's interpreter ended without a word, by an exit or an error in its event loop.";
