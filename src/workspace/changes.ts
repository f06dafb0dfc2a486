import type { BigIntStats } from "node:fs";
import type { Folder } from "./folder.ts";
import { scan } from "./scan.ts";
import { isTemporary } from "./temporary.ts";
import type { Mark } from "./workspace.ts";

export interface Picture extends Mark {
  readonly totalBytes: number;
}

/** Regular files below a folder, each with what would differ if it were changed. Sizes are what the disk really gives. */
export async function takePicture(root: Folder): Promise<Picture> {
  const files = new Map<string, string>();
  let totalBytes = 0;
  const complete = await scan(root, (path, stats) => {
    totalBytes += allocatedBytes(stats);
    if (stats.isFile() && !isNoise(path)) files.set(path, signature(stats));
  });
  return { files, complete, totalBytes };
}

/** The size comes first, where `compare` reads it. */
function signature(stats: BigIntStats): string {
  return `${stats.size} ${stats.mtimeNs} ${stats.ctimeNs} ${stats.ino}`;
}

/** A sparse file of a terabyte takes no room; Windows does not count blocks. */
function allocatedBytes(stats: BigIntStats): number {
  return Number(process.platform === "win32" ? stats.size : stats.blocks * 512n);
}

/** Python's compiled copies come and go with every import. */
function isNoise(path: string): boolean {
  return path.includes("__pycache__/") || isTemporary(path.slice(path.lastIndexOf("/") + 1));
}
