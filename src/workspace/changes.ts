import type { BigIntStats } from "node:fs";
import type { FileChange } from "../execution.ts";
import type { Folder } from "./folder.ts";
import { mimeTypeOf } from "./mime.ts";
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

/** What differs. Where a picture is incomplete, a file that is missing from it proves nothing and is left out. */
export function compare(before: Mark, after: Mark): FileChange[] {
  const changes: FileChange[] = [];
  for (const [path, now] of after.files) {
    const then = before.files.get(path);
    if (then === now || (then === undefined && !before.complete)) continue;
    changes.push(described(path, then === undefined ? "created" : "modified", Number.parseInt(now, 10)));
  }
  for (const path of before.files.keys()) {
    if (after.complete && !after.files.has(path)) changes.push(described(path, "deleted", 0));
  }
  return changes.sort((one, other) => (one.path < other.path ? -1 : 1));
}

function described(path: string, change: FileChange["change"], sizeBytes: number): FileChange {
  return { path, change, sizeBytes, mimeType: mimeTypeOf(path) };
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
