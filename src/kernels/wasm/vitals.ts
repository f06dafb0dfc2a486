import { readdirSync, readFileSync } from "node:fs";

/** Resource use that a process reports about itself. */
export interface Vitals {
  rssBytes: number;
  cpuMs: number;
}

/** Undefined: the process is gone, or this system has no `/proc`. */
export function readRssBytes(pid: number): number | undefined {
  try {
    const rss = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    return Number(rss ?? 0) * 1024;
  } catch {
    return undefined;
  }
}

/** All bytes that a process has written so far; 0 if unknown. */
export function writtenBytes(pid: number): number {
  try {
    return Number(/^wchar: (\d+)/m.exec(readFileSync(`/proc/${pid}/io`, "latin1"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** The `/proc` folder of the thread that runs a process's first Deno worker. Undefined without `/proc`. */
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
