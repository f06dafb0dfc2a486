import { readFile, stat } from "node:fs/promises";
import { diskUse, namelessBytes } from "./disk-use.ts";
import { memoryUse } from "./memory-use.ts";

export interface Watched {
  /** The subject of messages; default: the kernel. */
  who?: string | undefined;
  /** Host pids of the session's processes. */
  processes(): Promise<number[]>;
  /** All folders that the session can write to. */
  folders: string[];
  /** Files that the kernel writes for itself, which code can also write to. */
  ownFiles?: OwnFile[] | undefined;
  diskMb: number;
  /** Also count what is in the folders at the start. */
  countsBefore?: boolean | undefined;
  /** Set if no cgroup limits the session's memory. */
  memoryMb?: number | undefined;
  /** Checks are more frequent while a cell runs. */
  isBusy(): boolean;
  /** Called once, with the reason as a sentence. */
  onExceeded(reason: string): void;
}

export interface OwnFile {
  path: string;
  /** Its size in normal use, which is not counted. */
  usualBytes: number;
}

/** Check interval while a cell runs: a fast disk writes 100 MB in this time. */
const BUSY_LOOK_MS = 200;
/** Check interval between cells: background processes can write and grow, too. */
const IDLE_LOOK_MS = 1_000;
/** Checks take at most a tenth of the time. */
const LOOK_SHARE = 10;
/** Minimum interval of disk scans, unless half of the remaining space may have been written since. */
const DISK_LOOK_MS = 1_000;
/** Maximum interval of disk scans: processes that lived only between two checks have written unnoticed. */
const IDLE_DISK_LOOK_MS = 5_000;
const IDLE_DISK_LOOK_SHARE = 100;
/** Between cells hardly anything is written; more than this triggers a disk scan. */
const WRITTEN_SLACK_BYTES = 1024 * 1024;
/** Tolerance above the limit: a single file stops growing exactly at the limit. */
const DISK_SLACK_BYTES = 32 * 1024 * 1024;
/** Memory of idle interpreters. */
const OWN_MEMORY_MB = 256;
const MB = 1024 * 1024;

/** Checks a session's disk use, and its memory use if asked to, and reports when a limit is exceeded. */
export function watchUse(watched: Watched): UseWatching {
  const watch = new UseWatch(watched);
  return { started: watch.start(), check: () => watch.check(), stop: () => watch.stop() };
}

export interface UseWatching {
  /** Resolves when the initial disk use, which does not count, has been measured. Never rejects. */
  started: Promise<void>;
  /** Checks the disk now. Returns the reason if the limit is exceeded. */
  check(): Promise<string | undefined>;
  stop(): void;
}

class UseWatch {
  readonly #watched: Watched;
  readonly #who: string;
  readonly #written = new Map<number, number>();
  #devices = new Set<number>();
  #diskLimitBytes: number;
  #diskLeftBytes = 0;
  #diskLookedAt = Number.NEGATIVE_INFINITY;
  #diskLookMs = 0;
  #writtenSince = Number.POSITIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(watched: Watched) {
    this.#watched = watched;
    this.#who = watched.who ?? "The kernel";
    this.#diskLimitBytes = watched.diskMb * MB + DISK_SLACK_BYTES;
  }

  async start(): Promise<void> {
    const { folders } = this.#watched;
    const found = await Promise.all(folders.map((folder) => stat(folder).catch(() => undefined)));
    this.#devices = new Set(found.flatMap((each) => (each ? [each.dev] : [])));
    // Files from before must not end this kernel.
    const used = this.#watched.countsBefore ? 0 : await diskUse(folders, Number.POSITIVE_INFINITY);
    this.#diskLimitBytes = Math.max(this.#diskLimitBytes, used + DISK_SLACK_BYTES);
    this.#schedule(0);
  }

  async check(): Promise<string | undefined> {
    return this.#diskReason(await this.#watched.processes().catch(() => []));
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  #schedule(tookMs: number): void {
    if (this.#stopped) return;
    const soon = this.#watched.isBusy() || this.#writtenSince > WRITTEN_SLACK_BYTES;
    const pauseMs = Math.max(soon ? BUSY_LOOK_MS : IDLE_LOOK_MS, tookMs * LOOK_SHARE);
    this.#timer = setTimeout(() => void this.#look(), pauseMs);
    this.#timer.unref();
  }

  async #look(): Promise<void> {
    const since = performance.now();
    const pids = await this.#watched.processes().catch(() => []);
    this.#writtenSince += await this.#newlyWritten(pids);
    const reason = (await this.#memoryReason(pids)) ?? (this.#diskIsDue() ? await this.#diskReason(pids) : undefined);
    if (this.#stopped) return;
    if (reason) {
      this.stop();
      this.#watched.onExceeded(reason);
      return;
    }
    this.#schedule(performance.now() - since);
  }

  async #memoryReason(pids: number[]): Promise<string | undefined> {
    const { memoryMb } = this.#watched;
    if (memoryMb === undefined) return undefined;
    if ((await memoryUse(pids)) <= (memoryMb + OWN_MEMORY_MB) * MB) return undefined;
    return `${this.#who} ran out of memory: its processes together used more than the limit of ${memoryMb} MB.`;
  }

  #diskIsDue(): boolean {
    const passedMs = performance.now() - this.#diskLookedAt;
    if (passedMs > Math.max(IDLE_DISK_LOOK_MS, this.#diskLookMs * IDLE_DISK_LOOK_SHARE)) return true;
    const isUrgent = this.#writtenSince > this.#diskLeftBytes / 2;
    if (!isUrgent && passedMs < DISK_LOOK_MS) return false;
    return this.#watched.isBusy() || this.#writtenSince > WRITTEN_SLACK_BYTES;
  }

  async #diskReason(pids: number[]): Promise<string | undefined> {
    this.#diskLookedAt = performance.now();
    this.#writtenSince = 0;
    const held = await Promise.all(pids.map((pid) => namelessBytes(pid, this.#devices)));
    const grown = await Promise.all((this.#watched.ownFiles ?? []).map(excessBytes));
    const aside = [...held, ...grown].reduce((sum, size) => sum + size, 0);
    const used = aside + (await diskUse(this.#watched.folders, this.#diskLimitBytes - aside));
    this.#diskLookMs = performance.now() - this.#diskLookedAt;
    this.#diskLeftBytes = this.#diskLimitBytes - used;
    if (this.#diskLeftBytes >= 0) return undefined;
    return tooMuchOnDisk(this.#who, this.#watched.diskMb);
  }

  async #newlyWritten(pids: number[]): Promise<number> {
    let bytes = 0;
    const alive = new Set(pids);
    for (const pid of this.#written.keys()) if (!alive.has(pid)) this.#written.delete(pid);
    for (const pid of pids) {
      const text = await readFile(`/proc/${pid}/io`, "latin1").catch(() => "");
      const count = (name: string) => Number(new RegExp(`^${name}: (\\d+)`, "m").exec(text)?.[1] ?? 0);
      // Single bytes on many pages, or memory-mapped writes, count little as `wchar` and much as `write_bytes`.
      const written = Math.max(count("wchar"), count("write_bytes"));
      bytes += Math.max(0, written - (this.#written.get(pid) ?? 0));
      this.#written.set(pid, written);
    }
    return bytes;
  }
}

export function tooMuchOnDisk(who: string, diskMb: number): string {
  return `${who} was ended because its files grew beyond the limit of ${diskMb} MB.`;
}

async function excessBytes({ path, usualBytes }: OwnFile): Promise<number> {
  const size = await stat(path).then(
    (file) => file.blocks * 512,
    () => 0,
  );
  return Math.max(0, size - usualBytes);
}
