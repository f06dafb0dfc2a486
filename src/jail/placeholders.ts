import { lstatSync, mkdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** Something empty that was made where a mount point had to be. */
export interface Placeholder {
  path: string;
  /** What it was made as (see `idOf`): whatever else is found at the path is not ours. */
  id: string;
}

/**
 * Makes something to be mounted on where nothing is: a folder, since `git` and listings overlook an empty one, or a file.
 * Undefined: there is something already, or code could make nothing there.
 */
export function makePlaceholder(root: string, relativePath: string, kind: "folder" | "file"): Placeholder | undefined {
  const path = `${root}/${relativePath}`;
  try {
    if (kind === "folder") mkdirSync(path, { mode: 0o755 });
    else writeFileSync(path, "", { flag: "wx", mode: 0o644 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Without the folder above there is nothing to protect in it.
    if (["EEXIST", "EROFS", "ENOENT", "ENOTDIR"].includes(code ?? "")) return undefined;
    if ((code === "EACCES" || code === "EPERM") && !isOwn(dirname(path))) return undefined;
    throw error;
  }
  const id = idOf(path);
  return id === undefined ? undefined : { path, id };
}

/** Takes it away, if it is still what was made. */
export function removePlaceholder({ path, id }: Placeholder): void {
  if (idOf(path) !== id) return;
  try {
    // What somebody uses by now is not empty, and stays.
    const stats = lstatSync(path);
    if (stats.isDirectory()) rmdirSync(path);
    else if (stats.size === 0) rmSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (!["ENOENT", "ENOTEMPTY", "EEXIST", "ENOTDIR", "EBUSY", "EACCES", "EPERM", "EROFS"].includes(code ?? "")) {
      throw error;
    }
  }
}

/** Device and inode, and when it was made: file systems give the number of what was removed to what is made next. */
export function idOf(path: string): string | undefined {
  const stats = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return stats && `${stats.dev}:${stats.ino}:${stats.birthtimeNs}`;
}

/** A folder of ours that we may not write to could be opened by code, which runs as the same user. */
function isOwn(folder: string): boolean {
  return lstatSync(folder, { throwIfNoEntry: false })?.uid === process.getuid?.();
}
