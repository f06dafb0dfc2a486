import type { BigIntStats } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { entries, type Folder, lstatIn, type Name } from "../../folders/folder.ts";
import { isTemporary } from "../../folders/temporary.ts";
import { failedWith } from "../../system-error.ts";
import { MAX_DEPTH } from "../path.ts";
import type { Mark } from "../workspace.ts";

/** Entries scanned after every cell: about 50 ms of work, and more than most projects have. */
export const MAX_ENTRIES = 10_000;

/** Entries scanned before yielding to the event loop: about a millisecond. */
const BATCH = 256;

export interface FolderMark extends Mark {
  readonly totalBytes: number;
}

/** Regular files below a folder, each with a signature that changes with the file. Sizes are allocated bytes. */
export async function scanFolder(root: Folder): Promise<FolderMark> {
  const files = new Map<string, string>();
  let totalBytes = 0;
  const complete = await scan(root, (path, stats) => {
    totalBytes += allocatedBytes(stats);
    if (stats.isFile() && !isNoise(path)) files.set(path, signature(stats));
  });
  return { files, complete, totalBytes };
}

/** The size comes first, because `compare` reads it. */
function signature(stats: BigIntStats): string {
  return `${stats.size} ${stats.mtimeNs} ${stats.ctimeNs} ${stats.ino}`;
}

/** A sparse file of a terabyte takes no disk space; Windows does not report blocks. */
function allocatedBytes(stats: BigIntStats): number {
  return Number(process.platform === "win32" ? stats.size : stats.blocks * 512n);
}

/** Python's bytecode caches come and go with every import. */
function isNoise(path: string): boolean {
  return path.includes("__pycache__/") || isTemporary(path.slice(path.lastIndexOf("/") + 1));
}

/** Visits everything below a folder, without following symlinks. False if something was left out. */
async function scan(root: Folder, visit: (path: string, stats: BigIntStats) => void): Promise<boolean> {
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

  /** Visits a folder's entries and returns its subfolders. */
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
        const stats = lstatIn(folder, name);
        if (!stats) continue;
        const path = `${prefix}${name}`;
        visit(path, stats);
        if (stats.isDirectory()) folders.push({ name, path });
      }
    } catch (error) {
      // A cell may make its own folders unreadable; scan the rest.
      if (!failedWith(error)) throw error;
      complete = false;
    }
    return folders;
  }
}

/** A folder that a cell removes or replaces during the scan counts as missing. */
function entered(folder: Folder, name: Name): Folder | undefined {
  try {
    return folder.enter(name);
  } catch (error) {
    if (!failedWith(error, "ENOENT", "ENOTDIR", "ELOOP")) throw error;
    return undefined;
  }
}
