import { readdir, readFile } from "node:fs/promises";

/** Every process that a shell without a jail starts has it in its environment, unless it was taken away. */
export const MARK_VARIABLE = "CELLWRIGHT_SHELL";

/** Those found may have started others meanwhile. */
const MAX_ROUNDS = 5;

/**
 * Ends processes that left the shell's process group, by the mark in their environment. Where there is no `/proc`, and
 * for a process that cleared its environment, this finds nothing: only a jail holds those.
 */
export async function endMarked(mark: string): Promise<void> {
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const found = await marked(`${MARK_VARIABLE}=${mark}`);
    if (found.length === 0) return;
    for (const pid of found) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has ended by itself.
      }
    }
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
  const environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
  return environment.split("\0").includes(entry);
}
