import { existsSync } from "node:fs";
import { diskUse, namelessBytes } from "../../isolation/limits/disk-use.ts";
import { OLD_SPACE_MB } from "./launch.ts";
import { findWorkerThread, readRssBytes, type Vitals, writtenBytes } from "./vitals.ts";

/** Check interval while a cell runs, or its leftovers write: a fast disk writes 30 MB in this time. */
const BUSY_LOOK_MS = 100;
/** Check interval between cells. Eight idle sessions cost 350 ms of CPU time in 20 s (120 ms with 1 s). */
const IDLE_LOOK_MS = 250;
const PING_MS = 250;
const IDLE_PING_MS = 1_000;
/** Memory of Deno and Pyodide themselves, with slack: an idle kernel takes 180 MB. */
const OWN_MB = 300;
/** Without `/proc` to see the worker's thread: a worker is dead if it is silent this long without using the CPU. */
const SILENCE_MS = 1_500;
/** Grace period: when a whole process exits, its threads go first, and freeing a gigabyte takes long. */
const DYING_MS = 1_000;
const SILENT_CPU_MS = 30;
/**
 * So many pings without an answer, in 30 s of a running cell or two minutes between cells: user code has taken over the
 * supervisor's stdin or stopped its thread. Not a time, which also passes while this process or the machine stands still.
 */
const MAX_UNANSWERED_PINGS = 120;
/** Minimum interval of disk scans, unless half of the remaining space has been written since. */
const DISK_LOOK_MS = 500;
/** Disk scans take at most a tenth of the time. */
const DISK_LOOK_SHARE = 10;
/** Tolerance above the limit. Python gets an error at the limit, so code beyond it has bypassed the quota. */
const DISK_SLACK_BYTES = 32 * 1024 * 1024;

/** Between cells a kernel writes hardly anything; more than this triggers a disk scan. */
const WRITTEN_SLACK_BYTES = 1024 * 1024;

export interface Watched {
  pid: number;
  memoryMb: number;
  diskMb: number;
  /** All folders that the kernel can write to. */
  folders: string[];
  isBusy(): boolean;
  /** Reading from the kernel is paused, so its silence means nothing. */
  isHeldBack(): boolean;
  ping(): void;
  /** Called once, with the reason as a sentence. */
  kill(reason: string): void;
}

/** Enforces limits that V8 and Pyodide lack: JavaScript buffers, a worker that died silently, a full disk. */
export class Watchdog {
  readonly #watched: Watched;
  readonly #rssLimitMb: number;
  readonly #workerThread: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #looksSoon = false;
  #stopped = false;
  #goneSince: number | undefined;
  #pingedAt = 0;
  #aliveAt = performance.now();
  #unansweredPings = 0;
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
    // Files from before must not end this kernel.
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
    this.#unansweredPings = 0;
    if (!pulse.alive) return;
    this.#aliveAt = performance.now();
    this.#cpuWhenAliveMs = pulse.cpuMs;
  }

  /** A cell begins: check more often. */
  cellBegins(): void {
    this.#diskMayHaveGrown = true;
    // Otherwise cells in quick succession would put the check off for ever.
    if (this.#looksSoon) return;
    clearTimeout(this.#timer);
    this.#schedule();
  }

  #schedule(): void {
    this.#looksSoon =
      this.#watched.isBusy() || this.#goneSince !== undefined || this.#writtenSince > WRITTEN_SLACK_BYTES;
    this.#timer = setTimeout(() => this.#look(), this.#looksSoon ? BUSY_LOOK_MS : IDLE_LOOK_MS);
    this.#timer.unref();
  }

  #look(): void {
    if (this.#stopped) return;
    const reason = this.#memoryReason() ?? this.#silenceReason();
    if (reason) {
      this.#kill(reason);
      return;
    }
    this.#ping();
    this.#writtenSince = writtenBytes(this.#watched.pid) - this.#writtenWhenLooked;
    if (this.#diskIsDue()) void this.#lookAtDisk();
    this.#schedule();
  }

  /** Between cells less often than the checks: a ping wakes both threads of the kernel. */
  #ping(): void {
    const pauseMs = this.#watched.isBusy() ? PING_MS : IDLE_PING_MS;
    if (performance.now() - this.#pingedAt < pauseMs) return;
    this.#pingedAt = performance.now();
    this.#unansweredPings += 1;
    this.#watched.ping();
  }

  #memoryReason(): string | undefined {
    const rssBytes = readRssBytes(this.#watched.pid) ?? this.#reported?.rssBytes ?? 0;
    if (rssBytes <= this.#rssLimitMb * 1024 * 1024) return undefined;
    return `The kernel ran out of memory: its process grew beyond ${this.#rssLimitMb} MB.`;
  }

  #silenceReason(): string | undefined {
    if (this.#watched.isHeldBack()) this.#unansweredPings = 0;
    if (this.#unansweredPings > MAX_UNANSWERED_PINGS) return NO_PULSE;
    if (this.#workerThread) {
      if (existsSync(this.#workerThread)) return undefined;
      this.#goneSince ??= performance.now();
      return performance.now() - this.#goneSince > DYING_MS ? SILENT_END : undefined;
    }
    if (!this.#reported || this.#watched.isHeldBack()) return undefined;
    const silent = performance.now() - this.#aliveAt > SILENCE_MS;
    return silent && this.#reported.cpuMs - this.#cpuWhenAliveMs < SILENT_CPU_MS ? SILENT_END : undefined;
  }

  /** After a cell, and while one runs. A timer of an earlier cell can write, too. */
  #diskIsDue(): boolean {
    if (this.#isLookingAtDisk) return false;
    if (!this.#diskMayHaveGrown && this.#writtenSince <= WRITTEN_SLACK_BYTES) return false;
    const isUrgent = this.#writtenSince > this.#diskLeftBytes / 2;
    const pauseMs = Math.max(isUrgent ? BUSY_LOOK_MS : DISK_LOOK_MS, this.#diskLookMs * DISK_LOOK_SHARE);
    // Timers are not exact: one that fires slightly early would otherwise skip a whole interval.
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
      this.#kill(`The kernel was ended because its files grew beyond the limit of ${diskMb} MB.`);
    }
  }

  #kill(reason: string): void {
    if (this.#stopped) return;
    this.stop();
    this.#watched.kill(reason);
  }
}

const NO_PULSE = "The kernel was ended because its process no longer answers.";
const SILENT_END = "The interpreter exited unexpectedly: an exit, or an error in its event loop.";
