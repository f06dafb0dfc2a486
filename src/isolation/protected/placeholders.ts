import { lstatSync, mkdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** An empty file or folder, created because a mount needs a mount point. */
export interface Placeholder {
  path: string;
  /** Its identity (see `idOf`): anything else at the path is not a placeholder. */
  id: string;
}

/**
 * Creates a mount point where nothing exists: a folder, because `git` and listings ignore empty ones, or a file.
 * Undefined: something exists already, or code could not create anything there.
 */
export function makePlaceholder(root: string, relativePath: string, kind: "folder" | "file"): Placeholder | undefined {
  const path = `${root}/${relativePath}`;
  try {
    if (kind === "folder") mkdirSync(path, { mode: 0o755 });
    else writeFileSync(path, "", { flag: "wx", mode: 0o644 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Without the parent folder there is nothing to protect.
    if (["EEXIST", "EROFS", "ENOENT", "ENOTDIR"].includes(code ?? "")) return undefined;
    if ((code === "EACCES" || code === "EPERM") && !isOwn(dirname(path))) return undefined;
    throw error;
  }
  const id = idOf(path);
  return id === undefined ? undefined : { path, id };
}

/** Removes it, unless it was replaced. */
export function removePlaceholder({ path, id }: Placeholder): void {
  if (idOf(path) !== id) return;
  try {
    // If it is in use by now, it is not empty and stays.
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

/** Device, inode and birth time: file systems reuse inode numbers. */
export function idOf(path: string): string | undefined {
  const stats = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return stats && `${stats.dev}:${stats.ino}:${stats.birthtimeNs}`;
}

/** Code runs as the same user, so it could make our own folder writable again. */
function isOwn(folder: string): boolean {
  return lstatSync(folder, { throwIfNoEntry: false })?.uid === process.getuid?.();
}
