import { readdir, readFile } from "node:fs/promises";

/** The children of a process in start order; adopted orphans come last. */
export async function childrenOf(pid: number): Promise<number[]> {
  try {
    const listed = await readFile(`/proc/${pid}/task/${pid}/children`, "latin1");
    return listed.trim().split(" ").filter(Boolean).map(Number);
  } catch {
    // It has ended, or this kernel lacks the file.
    return (await parents()).filter(([, parent]) => parent === pid).map(([child]) => child);
  }
}

/** A process and its descendants. For a jail's first process, which adopts orphans, that is the whole jail. */
export async function familyOf(pid: number): Promise<number[]> {
  const all = await parents();
  const family = all.some(([child]) => child === pid) ? [pid] : [];
  // Grows during the loop.
  for (const member of family) {
    family.push(...all.filter(([, parent]) => parent === member).map(([child]) => child));
  }
  return family;
}

/** Each process of the machine with its parent; empty without `/proc`. */
async function parents(): Promise<[pid: number, parent: number][]> {
  const names = await readdir("/proc").catch(() => []);
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(
    pids.map(async (pid): Promise<[number, number]> => {
      const stat = await readFile(`/proc/${pid}/stat`, "latin1").catch(() => "");
      // The name, in brackets, can contain anything.
      return [pid, Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1] ?? -1)];
    }),
  );
  return found.filter(([, parent]) => parent >= 0).sort(([a], [b]) => a - b);
}
