import { renameSync, rmdirSync, unlinkSync } from "node:fs";
import { emptyFolder, restorePermissions } from "../../folders/empty.ts";
import { at, type Folder, lstatIn, type Name } from "../../folders/folder.ts";
import { temporaryName } from "../../folders/temporary.ts";
import { keptFilling } from "../refusals.ts";

/** Timeout of a removal. Millions of files take less; a cell that keeps creating files would make it endless. */
const TIMEOUT_MS = 60_000;

/**
 * Removes the entry of this name, without following a symlink. A folder disappears at once and is emptied afterwards.
 */
export async function removeTree(folder: Folder, name: Name): Promise<void> {
  if (!lstatIn(folder, name)?.isDirectory()) return unlinkSync(at(folder, name));
  restorePermissions(folder, name);
  const doomed = temporaryName();
  renameSync(at(folder, name), at(folder, doomed));
  const inside = folder.enter(doomed);
  try {
    if (!(await emptyFolder(inside, AbortSignal.timeout(TIMEOUT_MS)))) throw keptFilling();
  } finally {
    inside.close();
  }
  rmdirSync(at(folder, doomed));
}
