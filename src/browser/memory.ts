import { readdirSync, readFileSync } from "node:fs";

/** A browser has about ten processes; far more than this are suspicious. */
const MAX_PROCESSES = 200;

/** Memory of a process tree, without file-backed pages. Undefined where /proc is missing. */
export function treeMemoryMb(pid: number): number | undefined {
  let total: number | undefined;
  const pids = [pid];
  for (let at = 0; at < pids.length && at < MAX_PROCESSES; at += 1) {
    const own = pids[at] as number;
    const status = read(`/proc/${own}/status`);
    if (status === undefined) continue;
    total = (total ?? 0) + kilobytes(status, "RssAnon") + kilobytes(status, "RssShmem");
    pids.push(...childrenOf(own));
  }
  return total === undefined ? undefined : total / 1024;
}

/** Linux lists children by the thread that started them. */
function childrenOf(pid: number): number[] {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    const children = threads.map((thread) => read(`/proc/${pid}/task/${thread}/children`) ?? "");
    return children.join(" ").split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

function kilobytes(status: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s*(\\d+)`, "m").exec(status)?.[1] ?? 0);
}

/** Processes may end during the scan. */
function read(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}
