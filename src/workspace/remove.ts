import { chmodSync, renameSync, rmdirSync, unlinkSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { CellwrightError } from "../errors.ts";
import { at, entries, type Folder, look, type Name } from "./folder.ts";
import { failedWith } from "./system-error.ts";
import { temporaryName } from "./temporary.ts";

/** Entries removed before others get their turn: about a millisecond. */
const BATCH = 128;

/** Longest a removal goes on. Millions of files take less; a cell that makes new ones all the while takes for ever. */
const PATIENCE_MS = 60_000;

/**
 * Removes whatever has this name, without following a link. A folder disappears at once and is emptied afterwards.
 * Folders inside it are moved up beside each other first: any depth then needs two open folders and short paths.
 */
export async function removeTree(folder: Folder, name: Name, signal?: AbortSignal): Promise<void> {
  if (!look(folder, name)?.isDirectory()) return unlinkSync(at(folder, name));
  openUp(folder, name);
  const doomed = temporaryName();
  renameSync(at(folder, name), at(folder, doomed));
  const inside = folder.enter(doomed);
  try {
    await empty(inside, signal);
  } finally {
    inside.close();
  }
  if (!signal?.aborted) rmdirSync(at(folder, doomed));
}

async function empty(top: Folder, signal: AbortSignal | undefined): Promise<void> {
  const deadlineMs = Date.now() + PATIENCE_MS;
  let done = 0;
  for (let found = true; found; ) {
    found = false;
    for (const { name, isFolder } of entries(top)) {
      found = true;
      if (!(await goOn())) return;
      if (!isFolder) {
        unlink(top, name);
        continue;
      }
      openUp(top, name);
      const inside = top.enter(name);
      try {
        if (!(await moveUp(inside))) return;
      } finally {
        inside.close();
      }
      removeIfEmpty(top, name);
    }
  }

  async function moveUp(inside: Folder): Promise<boolean> {
    for (const { name, isFolder } of entries(inside)) {
      if (!(await goOn())) return false;
      if (isFolder) {
        openUp(inside, name);
        renameSync(at(inside, name), at(top, temporaryName()));
      } else unlink(inside, name);
    }
    return true;
  }

  async function goOn(): Promise<boolean> {
    done += 1;
    if (done % BATCH === 0) {
      await setImmediate();
      if (Date.now() > deadlineMs)
        throw new CellwrightError("kernel_busy", "A folder was filled while it was removed.");
    }
    return !signal?.aborted;
  }
}

/** A cell may have taken its own folder's permissions away; without them it can be neither emptied nor moved. */
function openUp(folder: Folder, name: Name): void {
  const stats = look(folder, name);
  if (!stats || (stats.mode & 0o700n) === 0o700n) return;
  const inside = folder.enter(name);
  try {
    chmodSync(inside.self, 0o700);
  } finally {
    inside.close();
  }
}

/** A cell may be busy with the same folder: gone already is as good, and a folder by now has its turn later. */
function unlink(folder: Folder, name: Name): void {
  try {
    unlinkSync(at(folder, name));
  } catch (error) {
    if (!failedWith(error, "ENOENT", "EISDIR")) throw error;
  }
}

/** What a cell put in meanwhile is found in the next round. */
function removeIfEmpty(folder: Folder, name: Name): void {
  try {
    rmdirSync(at(folder, name));
  } catch (error) {
    if (!failedWith(error, "ENOENT", "ENOTEMPTY", "EEXIST")) throw error;
  }
}
