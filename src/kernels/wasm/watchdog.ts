import { diskUse, namelessBytes } from "../../jail/disk-use.ts";
import { OLD_SPACE_MB } from "./launch.ts";
import { findWorkerThread, readRssBytes, threadIsGone, type Vitals, writtenBytes } from "./vitals.ts";

/** While a cell runs, or something that it left behind writes: a fast disk takes 30 MB in this time. */
const BUSY_LOOK_MS = 100;
/** Between cells. Eight idle sessions cost the server 350 ms of a processor in 20 s, 120 ms with a look each second. */
const IDLE_LOOK_MS = 250;
const PING_MS = 250;
const IDLE_PING_MS = 1_000;
/** Deno and Pyodide themselves, with room: an idle kernel takes 180 MB. */
const OWN_MB = 300;
/** Where there is no `/proc` to see the worker's thread in: silent for so long without using the processor is dead. */
const SILENCE_MS = 1_500;
/** Threads also go first when the whole process ends, which then says why; with a gigabyte to give back it takes long. */
const DYING_MS = 1_000;
const SILENT_CPU_MS = 30;
/** Between two measurements of the disk, unless half of what was left has been written since. */
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
  #goneSince: number | undefined;
  #pingedAt = 0;
  #aliveAt = performance.now();
  #cpuWhenAliveMs = 0;
  #reported: Vitals | undefined;
  #isLookingAtDisk = false;
  #diskLookedAt = Number.NEGATIVE_INFINITY;
  #diskLookMs = 0;
  #diskLeftBytes = 0;
  #writtenWhenLooked = 0;
  #writtenSince = 0;
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
    const soon = this.#watched.isBusy() || this.#goneSince !== undefined || this.#writtenSince > WRITTEN_SLACK_BYTES;
    this.#timer = setTimeout(() => this.#look(), soon ? BUSY_LOOK_MS : IDLE_LOOK_MS);
    this.#timer.unref();
  }

  #look(): void {
    if (this.#stopped) return;
    const reason = this.#memoryReason() ?? this.#silenceReason();
    if (reason) {
      this.#condemn(reason);
      return;
    }
    this.#ping();
    this.#writtenSince = writtenBytes(this.#watched.pid) - this.#writtenWhenLooked;
    if (this.#diskIsDue()) void this.#lookAtDisk();
    this.#schedule();
  }

  /** Between cells less often than there are looks: it wakes both threads of the kernel. */
  #ping(): void {
    const pauseMs = this.#watched.isBusy() ? PING_MS : IDLE_PING_MS;
    if (performance.now() - this.#pingedAt < pauseMs) return;
    this.#pingedAt = performance.now();
    this.#watched.ping();
  }

  #memoryReason(): string | undefined {
    const rssBytes = readRssBytes(this.#watched.pid) ?? this.#reported?.rssBytes ?? 0;
    if (rssBytes <= this.#rssLimitMb * 1024 * 1024) return undefined;
    return `The kernel ran out of memory: its process grew beyond ${this.#rssLimitMb} MB.`;
  }

  #silenceReason(): string | undefined {
    if (this.#workerThread) {
      if (!threadIsGone(this.#workerThread)) return undefined;
      this.#goneSince ??= performance.now();
      return performance.now() - this.#goneSince > DYING_MS ? SILENT_END : undefined;
    }
    if (!this.#reported || this.#watched.isHeldBack()) return undefined;
    const silent = performance.now() - this.#aliveAt > SILENCE_MS;
    return silent && this.#reported.cpuMs - this.#cpuWhenAliveMs < SILENT_CPU_MS ? SILENT_END : undefined;
  }

  /** After a cell, and while one runs. A timer that a cell left behind can write, too. */
  #diskIsDue(): boolean {
    if (this.#isLookingAtDisk) return false;
    if (!this.#diskMayHaveGrown && this.#writtenSince <= WRITTEN_SLACK_BYTES) return false;
    const isUrgent = this.#writtenSince > this.#diskLeftBytes / 2;
    const pauseMs = Math.max(isUrgent ? BUSY_LOOK_MS : DISK_LOOK_MS, this.#diskLookMs * DISK_LOOK_SHARE);
    // Timers are not exact: one that comes a little early would otherwise cost a whole turn.
    return performance.now() - this.#diskLookedAt > pauseMs * 0.9;
  }

  async #lookAtDisk(): Promise<void> {
    const { pid, folders, diskMb } = this.#watched;
    this.#isLookingAtDisk = true;
    this.#diskLookedAt = performance.now();
    this.#diskMayHaveGrown = this.#watched.isBusy();
    this.#writtenWhenLooked += this.#writtenSince;
    const nameless = await namelessBytes(pid);
    const used = nameless + (await diskUse(folders, this.#diskLimitBytes - nameless));
    this.#diskLookMs = performance.now() - this.#diskLookedAt;
    this.#diskLeftBytes = this.#diskLimitBytes - used;
    this.#isLookingAtDisk = false;
    if (this.#diskLeftBytes < 0) {
      this.#condemn(`The kernel was ended because its files grew beyond the limit of ${diskMb} MB.`);
    }
  }

  #condemn(reason: string): void {
    if (this.#stopped) return;
    this.stop();
    this.#watched.condemn(reason);
  }
}

const SILENT_END = "The kernel's interpreter ended without a word, by an exit or an error in its event loop.";
