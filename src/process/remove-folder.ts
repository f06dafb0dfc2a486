import { chmodSync, lstatSync, rmdirSync, unlinkSync } from "node:fs";
import { emptyFolder, ignoreRaces } from "../folders/empty.ts";
import { openFolder } from "../folders/open-folder.ts";

/**
 * Removes a folder that no running cell can reach any more, whatever cells have left in it; a symlink itself, never what
 * it leads to. Another process may be removing the same folder.
 */
export async function removeFolder(path: string, signal?: AbortSignal): Promise<void> {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (!stats?.isDirectory()) {
    ignoreRaces(() => unlinkSync(path));
    return;
  }
  const folder = ignoreRaces(() => openFolder(path));
  if (!folder) return;
  try {
    if ((stats.mode & 0o700) !== 0o700) ignoreRaces(() => chmodSync(folder.self, 0o700));
    if (!(await emptyFolder(folder, signal))) return;
  } finally {
    folder.close();
  }
  ignoreRaces(() => rmdirSync(path));
}
