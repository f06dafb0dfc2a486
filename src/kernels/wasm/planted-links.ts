import { constants, existsSync } from "node:fs";
import { lstat, open, opendir, readlink, realpath, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** Entries asked for at once: few calls for a folder of 10 000 files, and never a million names in memory. */
const BUFFERED_ENTRIES = 1_000;

const hasDescriptorPaths = existsSync("/proc/self/fd");

/**
 * Removes all symbolic links below a folder, and returns how many there were. Deno alone would follow them out of the
 * workspace. Code cannot make links, but somebody on the host can. Those that lead inside go as well: they are
 * relative, and a rename, which code can do, makes them lead out.
 *
 * Folders are entered without following a link, also when one takes their place meanwhile.
 */
export async function removeLinks(root: string): Promise<number> {
  // Not the folder's own real path: a link in its place would lead this to somebody else's links.
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

/** Calls `look` with a path that leads to this very folder. A folder that is gone or moved by now is left out. */
async function inFolder(path: string, look: (self: string) => Promise<void>): Promise<void> {
  if (!hasDescriptorPaths) {
    // The best there is without them: between this and the look lies a moment.
    if ((await realpath(path).catch(() => undefined)) === path) await look(path).catch(unlessGone);
    return;
  }
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW).catch(unlessGone);
  try {
    const self = handle && `/proc/self/fd/${handle.fd}`;
    // A link above it leads to a folder of another name.
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

/** What changes during the walk is no failure of it; nor is what we, and so the kernel, may not enter. */
function unlessGone(error: unknown): undefined {
  const code = (error as NodeJS.ErrnoException).code ?? "";
  if (!["ENOENT", "ENOTDIR", "ELOOP", "EACCES", "ENAMETOOLONG"].includes(code)) throw error;
  return undefined;
}
