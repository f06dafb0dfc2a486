import { existsSync, readdirSync, readFileSync } from "node:fs";

/** What a process says of itself that it uses. */
export interface Vitals {
  rssBytes: number;
  cpuMs: number;
}

/** Nothing: the process is gone, or this system has no `/proc`. */
export function readRssBytes(pid: number): number | undefined {
  try {
    const rss = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    return Number(rss ?? 0) * 1024;
  } catch {
    return undefined;
  }
}

/** All bytes that a process has written so far; 0 where that cannot be known. */
export function writtenBytes(pid: number): number {
  try {
    return Number(/^wchar: (\d+)/m.exec(readFileSync(`/proc/${pid}/io`, "latin1"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** The folder of the thread in which Deno runs the first worker of a process. Nothing where there is no `/proc`. */
export function findWorkerThread(pid: number): string | undefined {
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const folder = `/proc/${pid}/task/${thread}`;
      if (readFileSync(`${folder}/comm`, "latin1").trim() === "worker-1") return folder;
    }
  } catch {
    // The process is gone, or there is no `/proc`.
  }
  return undefined;
}

export function threadIsGone(folder: string): boolean {
  return !existsSync(folder);
}
