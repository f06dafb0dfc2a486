import { chmodSync, renameSync, rmdirSync, unlinkSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { failedWith } from "../system-error.ts";
import { at, entries, type Folder, lstatIn, type Name } from "./folder.ts";
import { temporaryName } from "./temporary.ts";

/** Entries removed before yielding to the event loop: about a millisecond. */
const BATCH = 128;

/**
 * Removes everything in a folder, without following a symlink. Subfolders are first moved up into it: any depth then
 * needs two open folders and short paths. False if aborted before it was empty.
 */
export async function emptyFolder(top: Folder, signal: AbortSignal | undefined): Promise<boolean> {
  let done = 0;
  for (let found = true; found; ) {
    found = false;
    for (const { name, isFolder } of present(top)) {
      found = true;
      if (isFolder) await removeFolder(name);
      else ignoreRaces(() => unlinkSync(at(top, name)));
      await pause();
      if (signal?.aborted) return false;
    }
  }
  return true;

  async function removeFolder(name: Name): Promise<void> {
    ignoreRaces(() => restorePermissions(top, name));
    const inside = ignoreRaces(() => top.enter(name));
    if (!inside) return;
    try {
      for (const child of present(inside)) {
        if (child.isFolder) {
          ignoreRaces(() => restorePermissions(inside, child.name));
          ignoreRaces(() => renameSync(at(inside, child.name), at(top, temporaryName())));
        } else ignoreRaces(() => unlinkSync(at(inside, child.name)));
        await pause();
        if (signal?.aborted) return;
      }
    } finally {
      inside.close();
    }
    ignoreRaces(() => rmdirSync(at(top, name)));
  }

  async function pause(): Promise<void> {
    done += 1;
    if (done % BATCH === 0) await setImmediate();
  }
}

/** A folder that another process has removed meanwhile has no entries. */
function* present(folder: Folder): ReturnType<typeof entries> {
  try {
    yield* entries(folder);
  } catch (error) {
    if (!failedWith(error, "ENOENT")) throw error;
  }
}

/** Ignores races with others that work in the same folder: an entry that changed is seen again in the next round. */
export function ignoreRaces<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (failedWith(error, "ENOENT", "ENOTDIR", "ELOOP", "EISDIR", "ENOTEMPTY", "EEXIST")) return undefined;
    throw error;
  }
}

/** A cell may have removed its folder's permissions; without them it can be neither emptied nor moved. */
export function restorePermissions(folder: Folder, name: Name): void {
  const stats = lstatIn(folder, name);
  if (!stats || (stats.mode & 0o700n) === 0o700n) return;
  const inside = folder.enter(name);
  try {
    chmodSync(inside.self, 0o700);
  } finally {
    inside.close();
  }
}
