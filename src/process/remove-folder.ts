import { randomUUID } from "node:crypto";
import { chmodSync, lstatSync, opendirSync, renameSync, rmdirSync, unlinkSync } from "node:fs";
import { setImmediate } from "node:timers/promises";

/** Entries removed before yielding to the event loop: about a millisecond. */
const BATCH = 128;

/**
 * Removes a folder that no running cell can reach any more, whatever cells have left in it. Subfolders are first moved
 * up into it: a thousand nested ones would exceed the path length limit.
 */
export async function removeFolder(path: string, signal?: AbortSignal): Promise<void> {
  let done = 0;
  // Never through a symlink.
  if (!unlessGone(() => lstatSync(path).isDirectory())) {
    unlessGone(() => unlinkSync(path));
    return;
  }
  unlessGone(() => restorePermissions(path));
  for (let found = true; found; ) {
    found = false;
    for (const entry of entries(Buffer.from(path))) {
      found = true;
      for (const inside of entry.isFolder ? entries(entry.path) : []) {
        unlessGone(() =>
          inside.isFolder ? renameSync(inside.path, `${path}/${randomUUID()}`) : unlinkSync(inside.path),
        );
        await pause();
      }
      unlessGone(() => (entry.isFolder ? rmdirSync(entry.path) : unlinkSync(entry.path)));
      await pause();
      if (signal?.aborted) return;
    }
  }
  unlessGone(() => rmdirSync(path));

  async function pause(): Promise<void> {
    done += 1;
    if (done % BATCH === 0) await setImmediate();
  }
}

/** A folder's entries, with paths as bytes: a name need not be valid UTF-8. */
function* entries(folder: Buffer): Generator<{ path: Buffer; isFolder: boolean }> {
  const directory = unlessGone(() => opendirSync(folder, { encoding: "buffer" as BufferEncoding }));
  try {
    for (let entry = directory?.readSync(); entry; entry = directory?.readSync()) {
      const path = Buffer.concat([folder, Buffer.from("/"), entry.name as unknown as Buffer]);
      const isFolder = entry.isDirectory();
      if (isFolder) unlessGone(() => restorePermissions(path));
      yield { path, isFolder };
    }
  } finally {
    directory?.closeSync();
  }
}

/** A cell may have removed its folder's permissions; without them it can be neither emptied nor moved. */
function restorePermissions(folder: string | Buffer): void {
  const stats = lstatSync(folder);
  if (stats.isDirectory() && (stats.mode & 0o700) !== 0o700) chmodSync(folder, 0o700);
}

/** Ignores races: two processes that start at the same time may clean up the same folder. */
function unlessGone<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (["ENOENT", "ENOTEMPTY"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}
