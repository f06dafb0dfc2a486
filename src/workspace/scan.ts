import type { BigIntStats } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { entries, type Folder, look, type Name } from "./folder.ts";
import { MAX_DEPTH } from "./path.ts";
import { failedWith } from "./system-error.ts";

/** Entries looked at before and after every cell: about 50 ms of work, and more than most projects have. */
export const MAX_ENTRIES = 10_000;

/** Entries looked at before others get their turn: about a millisecond. */
const BATCH = 256;

/** Looks at everything below a folder, without following links. False when something had to be left out. */
export async function scan(root: Folder, visit: (path: string, stats: BigIntStats) => void): Promise<boolean> {
  let seen = 0;
  let complete = true;
  await inside(root, "", 0);
  return complete;

  async function inside(folder: Folder, prefix: string, depth: number): Promise<void> {
    for (const { name, path } of await visited(folder, prefix)) {
      if (depth === MAX_DEPTH || seen > MAX_ENTRIES) {
        complete = false;
        return;
      }
      const next = entered(folder, name);
      if (!next) continue;
      try {
        await inside(next, `${path}/`, depth + 1);
      } finally {
        next.close();
      }
    }
  }

  /** Visits what is in a folder and returns the folders among it. */
  async function visited(folder: Folder, prefix: string): Promise<{ name: Name; path: string }[]> {
    const folders: { name: Name; path: string }[] = [];
    try {
      for (const { name } of entries(folder)) {
        seen += 1;
        if (seen > MAX_ENTRIES) {
          complete = false;
          break;
        }
        if (seen % BATCH === 0) await setImmediate();
        const stats = look(folder, name);
        if (!stats) continue;
        const path = `${prefix}${name}`;
        visit(path, stats);
        if (stats.isDirectory()) folders.push({ name, path });
      }
    } catch (error) {
      // A cell may close its own folders to us; looking at the rest is still worth it.
      if (!failedWith(error)) throw error;
      complete = false;
    }
    return folders;
  }
}

/** A folder that a cell removes or replaces while we look is as good as not there. */
function entered(folder: Folder, name: Name): Folder | undefined {
  try {
    return folder.enter(name);
  } catch (error) {
    if (!failedWith(error, "ENOENT", "ENOTDIR", "ELOOP")) throw error;
    return undefined;
  }
}
