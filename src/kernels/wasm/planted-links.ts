import { constants, existsSync } from "node:fs";
import { lstat, open, opendir, readlink, realpath, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** Entries read at once: few calls for a folder of 10 000 files, but never a million names in memory. */
const BUFFERED_ENTRIES = 1_000;

const hasDescriptorPaths = existsSync("/proc/self/fd");

/**
 * Removes all symbolic links below a folder, and returns their number. Deno without a jail would follow them out of the
 * workspace. Code cannot create links, but other programs on the host can. Links that point inside are removed, too:
 * they may be relative, and code could rename them so that they point outside.
 *
 * Folders are opened without following links, so a link that replaces a folder meanwhile is not followed either.
 */
export async function removeLinks(root: string): Promise<number> {
  // Not the folder's own real path: a link in its place would make this remove another folder's links.
  const above = await realpath(dirname(root)).catch(unlessGone);
  const waiting = above === undefined ? [] : [join(above, basename(root))];
  let removed = 0;
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    const path = folder;
    await inFolder(path, async (self) => {
      for await (const entry of await opendir(self, { bufferSize: BUFFERED_ENTRIES })) {
        if (entry.isDirectory()) waiting.push(join(path, entry.name));
        else if (entry.isSymbolicLink() && (await removeLink(`${self}/${entry.name}`))) removed += 1;
      }
    });
  }
  return removed;
}

/** Calls `look` with a path to exactly this folder. Skips a folder that is gone or was moved. */
async function inFolder(path: string, look: (self: string) => Promise<void>): Promise<void> {
  if (!hasDescriptorPaths) {
    // Best effort without /proc: a race remains between this check and `look`.
    if ((await realpath(path).catch(() => undefined)) === path) await look(path).catch(unlessGone);
    return;
  }
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW).catch(unlessGone);
  try {
    const self = handle && `/proc/self/fd/${handle.fd}`;
    // If a parent is a link, the real path differs.
    if (self && (await readlink(self)) === path) await look(self).catch(unlessGone);
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
