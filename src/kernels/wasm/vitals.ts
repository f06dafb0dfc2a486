import { existsSync, readdirSync, readFileSync } from "node:fs";

/** What a process uses, and whether the thread that holds Python is still in it. */
export interface Vitals {
  rssBytes: number;
  cpuMs: number;
}

/** The unit of CPU times below `/proc`, the same on every Linux that Deno runs on. */
const TICK_MS = 10;

/** Nothing: the process is gone, or this system has no `/proc`. */
export function readVitals(pid: number): Vitals | undefined {
  try {
    const rss = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    // The process's name comes second, in brackets, and may hold spaces and brackets itself.
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return { rssBytes: Number(rss ?? 0) * 1024, cpuMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS };
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
