import { chmodSync, renameSync, rmdirSync, unlinkSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { at, entries, type Folder, look, type Name } from "./folder.ts";
import { keptFilling } from "./refusals.ts";
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
export async function removeTree(folder: Folder, name: Name): Promise<void> {
  if (!look(folder, name)?.isDirectory()) return unlinkSync(at(folder, name));
  openUp(folder, name);
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
  const deadlineMs = Date.now() + PATIENCE_MS;
  let done = 0;
  for (let found = true; found; ) {
    found = false;
    for (const { name, isFolder } of entries(top)) {
      found = true;
      if (isFolder) await removeFolder(name);
      else calmly(() => unlinkSync(at(top, name)));
      await pause();
    }
  }

  async function removeFolder(name: Name): Promise<void> {
    calmly(() => openUp(top, name));
    const inside = calmly(() => top.enter(name));
    if (!inside) return;
    try {
      for (const child of entries(inside)) {
        if (child.isFolder) {
          calmly(() => openUp(inside, child.name));
          calmly(() => renameSync(at(inside, child.name), at(top, temporaryName())));
        } else calmly(() => unlinkSync(at(inside, child.name)));
        await pause();
      }
    } finally {
      inside.close();
    }
    calmly(() => rmdirSync(at(top, name)));
  }

  async function pause(): Promise<void> {
    done += 1;
    if (done % BATCH !== 0) return;
    await setImmediate();
    if (Date.now() > deadlineMs) throw keptFilling();
  }
}

/** A cell may be busy in the same folder. What is no longer as it was listed is seen again in the next round, or gone. */
function calmly<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (failedWith(error, "ENOENT", "ENOTDIR", "ELOOP", "EISDIR", "ENOTEMPTY", "EEXIST")) return undefined;
    throw error;
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
