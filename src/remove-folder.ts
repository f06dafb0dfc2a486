import { randomUUID } from "node:crypto";
import { chmodSync, lstatSync, opendirSync, renameSync, rmdirSync, unlinkSync } from "node:fs";
import { setImmediate } from "node:timers/promises";

/** Entries removed before others get their turn: about a millisecond. */
const BATCH = 128;

/**
 * Removes a folder that no running cell can reach any more, whatever a cell made in it. Folders inside are first moved up
 * beside each other: a thousand of them in one another would make a path that no system call takes.
 */
export async function removeFolder(path: string, signal?: AbortSignal): Promise<void> {
  let done = 0;
  // Never through a link.
  if (!unlessGone(() => lstatSync(path).isDirectory())) {
    unlessGone(() => unlinkSync(path));
    return;
  }
  unlessGone(() => openUp(path));
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

/** What is in a folder, with paths as bytes: a name need not be valid text. */
function* entries(folder: Buffer): Generator<{ path: Buffer; isFolder: boolean }> {
  const directory = unlessGone(() => opendirSync(folder, { encoding: "buffer" as BufferEncoding }));
  try {
    for (let entry = directory?.readSync(); entry; entry = directory?.readSync()) {
      const path = Buffer.concat([folder, Buffer.from("/"), entry.name as unknown as Buffer]);
      const isFolder = entry.isDirectory();
      if (isFolder) unlessGone(() => openUp(path));
      yield { path, isFolder };
    }
  } finally {
    directory?.closeSync();
  }
}

/** A cell may have taken its own folder's permissions away; without them it can be neither emptied nor moved. */
function openUp(folder: string | Buffer): void {
  const stats = lstatSync(folder);
  if (stats.isDirectory() && (stats.mode & 0o700) !== 0o700) chmodSync(folder, 0o700);
}

/** Two programs that start at the same time may clean up the same folder. */
function unlessGone<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (["ENOENT", "ENOTEMPTY"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}
