import { chmodSync, renameSync, rmdirSync, unlinkSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { keptFilling } from "../refusals.ts";
import { failedWith } from "../system-error.ts";
import { at, entries, type Folder, lstatIn, type Name } from "./folder.ts";
import { temporaryName } from "./temporary.ts";

/** Entries removed before yielding to the event loop: about a millisecond. */
const BATCH = 128;

/** Timeout of a removal. Millions of files take less; a cell that keeps creating files would make it endless. */
const TIMEOUT_MS = 60_000;

/**
 * Removes the entry of this name, without following a symlink. A folder disappears at once and is emptied afterwards.
 * Subfolders are first moved up into it: any depth then needs two open folders and short paths.
 */
export async function removeTree(folder: Folder, name: Name): Promise<void> {
  if (!lstatIn(folder, name)?.isDirectory()) return unlinkSync(at(folder, name));
  restorePermissions(folder, name);
  const doomed = temporaryName();
  renameSync(at(folder, name), at(folder, doomed));
  const inside = folder.enter(doomed);
  try {
    await empty(inside);
  } finally {
    inside.close();
  }
  rmdirSync(at(folder, doomed));
}

async function empty(top: Folder): Promise<void> {
  const deadlineMs = Date.now() + TIMEOUT_MS;
  let done = 0;
  for (let found = true; found; ) {
    found = false;
    for (const { name, isFolder } of entries(top)) {
      found = true;
      if (isFolder) await removeFolder(name);
      else ignoreRaces(() => unlinkSync(at(top, name)));
      await pause();
    }
  }

  async function removeFolder(name: Name): Promise<void> {
    ignoreRaces(() => restorePermissions(top, name));
    const inside = ignoreRaces(() => top.enter(name));
    if (!inside) return;
    try {
      for (const child of entries(inside)) {
        if (child.isFolder) {
          ignoreRaces(() => restorePermissions(inside, child.name));
          ignoreRaces(() => renameSync(at(inside, child.name), at(top, temporaryName())));
        } else ignoreRaces(() => unlinkSync(at(inside, child.name)));
        await pause();
      }
    } finally {
      inside.close();
    }
    ignoreRaces(() => rmdirSync(at(top, name)));
  }

  async function pause(): Promise<void> {
    done += 1;
    if (done % BATCH !== 0) return;
    await setImmediate();
    if (Date.now() > deadlineMs) throw keptFilling();
  }
}

/** Ignores races with a cell that works in the same folder: an entry that changed is seen again in the next round. */
function ignoreRaces<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (failedWith(error, "ENOENT", "ENOTDIR", "ELOOP", "EISDIR", "ENOTEMPTY", "EEXIST")) return undefined;
    throw error;
  }
}

/** A cell may have removed its folder's permissions; without them it can be neither emptied nor moved. */
function restorePermissions(folder: Folder, name: Name): void {
  const stats = lstatIn(folder, name);
  if (!stats || (stats.mode & 0o700n) === 0o700n) return;
  const inside = folder.enter(name);
  try {
    chmodSync(inside.self, 0o700);
  } finally {
    inside.close();
  }
}
