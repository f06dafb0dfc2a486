import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { GuardedFolder, Mount } from "../jail.ts";

/**
 * Landlock grants rights to whole trees, without exceptions. So for a folder with exceptions the entries around them
 * are granted: each one that does not contain an exception. The folder itself, and those that lead to an exception, are
 * not granted; creating, moving and removing entries in them is judged by the gate (`guardedFolders`). Symlinks are
 * left out, because a grant would follow them.
 */
export async function grantsAround(folder: string, exceptions: string[]): Promise<string[]> {
  const below = within(folder, exceptions);
  if (below.length === 0) return [folder];
  if (below.includes(folder)) return [];
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const grants = entries
    .filter((entry) => entry.isDirectory() || entry.isFile())
    .map((entry) => grantsAround(join(folder, entry.name), below));
  return (await Promise.all(grants)).flat();
}

/** The same for mounts, each at its own path. */
export async function mountsAround(mounts: Mount[], exceptions: string[]): Promise<Mount[]> {
  const grants = await Promise.all(mounts.map(({ from }) => grantsAround(from, exceptions)));
  return [...new Set(grants.flat())].map((path) => ({ from: path, at: path }));
}

/** The folders that contain exceptions. */
export function guardedFolders(folders: string[], exceptions: string[]): GuardedFolder[] {
  return folders
    .map((folder) => ({ folder, except: within(folder, exceptions) }))
    .filter(({ folder, except }) => except.length > 0 && !except.includes(folder));
}

function within(folder: string, paths: string[]): string[] {
  return paths.filter((path) => path === folder || path.startsWith(folder === "/" ? "/" : `${folder}/`));
}
