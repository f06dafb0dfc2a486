import { readdir, readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";

/** Every process that a shell without a jail starts has it in its environment, unless it was taken away. */
export const MARK_VARIABLE = "CELLWRIGHT_SHELL";

/** Those found may have started others meanwhile. */
const LOOKS_IN_VAIN = 2;
const NAP_MS = 10;
/** A process that is just becoming another program has no environment. */
const READS = 10;
/** For what cannot be killed, since it waits for a disk. */
const MAX_LOOKS = 100;

/**
 * Ends processes that left the shell's process group, by the mark in their environment. Where there is no `/proc`, and
 * for a process that cleared its environment, this finds nothing: only a jail holds those.
 */
export async function endMarked(mark: string): Promise<void> {
  for (let looks = 0, inVain = 0; looks < MAX_LOOKS; looks += 1) {
    const found = await marked(`${MARK_VARIABLE}=${mark}`);
    inVain = found.length === 0 ? inVain + 1 : 0;
    if (inVain === LOOKS_IN_VAIN) return;
    for (const pid of found) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has ended by itself.
      }
    }
    await delay(NAP_MS);
  }
}

async function marked(entry: string): Promise<number[]> {
  const names = await readdir("/proc").catch(() => []);
  const pids = names.filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(pids.map(async (pid) => ((await hasEntry(pid, entry)) ? [Number(pid)] : [])));
  return found.flat();
}

/** A process that has ended, and one of another user, has nothing to show. */
async function hasEntry(pid: string, entry: string): Promise<boolean> {
  let environment: string | undefined = "";
  for (let reads = 0; reads < READS && environment === ""; reads += 1) {
    environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => undefined);
  }
  return environment?.split("\0").includes(entry) ?? false;
}
