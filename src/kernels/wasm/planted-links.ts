import { constants, type Dirent, existsSync } from "node:fs";
import { lstat, open, opendir, realpath, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** Entries read at once: few calls for a folder of 10 000 files, but never a million names in memory. */
const BUFFERED_ENTRIES = 1_000;

const hasDescriptorPaths = existsSync("/proc/self/fd");

/**
 * Removes all symbolic links below a folder, and returns their number. Deno without a jail would follow them out of the
 * workspace. Code cannot create links, but other programs on the host can. Links that point inside are removed, too:
 * they may be relative, and code could rename them so that they point outside.
 */
export async function removeLinks(root: string): Promise<number> {
  let removed = 0;
  for await (const { self } of linksBelow(root)) if (await removeLink(self)) removed += 1;
  return removed;
}

/** For a folder that is not ours to clean up: the path of any symbolic link in it. */
export async function findLink(root: string): Promise<string | undefined> {
  for await (const { path } of linksBelow(root)) return path;
  return undefined;
}

interface Found {
  path: string;
  /** The same, by a way on which no folder can be replaced meanwhile. */
  self: string;
}

/** Folders are opened without following links, so a link that replaces a folder meanwhile is not followed either. */
async function* linksBelow(root: string): AsyncGenerator<Found> {
  // Not the folder's own real path: a link in its place would lead to another folder's links.
  const above = await realpath(dirname(root)).catch(unlessGone);
  const waiting = above === undefined ? [] : [join(above, basename(root))];
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    for await (const { entry, self } of entriesOf(folder)) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) waiting.push(path);
      else if (entry.isSymbolicLink()) yield { path, self };
    }
  }
}

/** The entries of exactly this folder; none if it is gone or was moved. */
async function* entriesOf(path: string): AsyncGenerator<{ entry: Dirent; self: string }> {
  const handle = hasDescriptorPaths
    ? await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW).catch(unlessGone)
    : undefined;
  if (hasDescriptorPaths && !handle) return;
  try {
    // Best effort without /proc: a race remains between the check below and the reading.
    const folder = handle ? `/proc/self/fd/${handle.fd}` : path;
    // If a parent is a link, the real path differs.
    if ((await realpath(folder)) !== path) return;
    for await (const entry of await opendir(folder, { bufferSize: BUFFERED_ENTRIES }))
      yield { entry, self: `${folder}/${entry.name}` };
  } catch (error) {
    unlessGone(error);
  } finally {
    await handle?.close();
  }
}

async function removeLink(path: string): Promise<boolean> {
  try {
    if (!(await lstat(path)).isSymbolicLink()) return false;
    await unlink(path);
    return true;
  } catch (error) {
    unlessGone(error);
    return false;
  }
}

/** Changes during the walk are not errors; nor are folders that this user, and so the kernel, may not enter. */
function unlessGone(error: unknown): undefined {
  const code = (error as NodeJS.ErrnoException).code ?? "";
  if (!["ENOENT", "ENOTDIR", "ELOOP", "EACCES", "ENAMETOOLONG"].includes(code)) throw error;
  return undefined;
}
