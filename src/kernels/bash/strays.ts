import { readdir, readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { kill } from "../../process/kill.ts";

/** In the environment of every process that a shell without a jail starts, unless the process removed it. */
export const MARK_VARIABLE = "CELLWRIGHT_SHELL";

/** Consecutive searches without a result: processes found may have started others meanwhile. */
const LOOKS_IN_VAIN = 2;
const NAP_MS = 10;
/** A process during `exec` has no environment. */
const READS = 10;
/** Timeout for a process that cannot be killed, because it waits for a disk. */
const MAX_LOOKS = 100;

/**
 * Kills processes that left the shell's process group, found by the mark in their environment. Without `/proc`, or if a
 * process cleared its environment, they are not found: only a jail contains those.
 */
export async function endMarked(mark: string): Promise<void> {
  for (let looks = 0, inVain = 0; looks < MAX_LOOKS; looks += 1) {
    const found = await marked(`${MARK_VARIABLE}=${mark}`);
    inVain = found.length === 0 ? inVain + 1 : 0;
    if (inVain === LOOKS_IN_VAIN) return;
    for (const pid of found) kill(pid);
    await delay(NAP_MS);
  }
}

async function marked(entry: string): Promise<number[]> {
  const names = await readdir("/proc").catch(() => []);
  const pids = names.filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(pids.map(async (pid) => ((await hasEntry(pid, entry)) ? [Number(pid)] : [])));
  return found.flat();
}

/** False for a process that has ended or belongs to another user. */
async function hasEntry(pid: string, entry: string): Promise<boolean> {
  let environment: string | undefined = "";
  for (let reads = 0; reads < READS && environment === ""; reads += 1) {
    environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => undefined);
  }
  return environment?.split("\0").includes(entry) ?? false;
}
