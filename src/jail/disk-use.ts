import type { Dirent, Stats } from "node:fs";
import { lstat, readdir, stat } from "node:fs/promises";
import { join } from "node:path";

const BLOCK_BYTES = 4096;

/**
 * What folders take on disk, near enough; stops counting above `enoughBytes`. Files may come and go meanwhile. One with
 * several names is counted once.
 */
export async function diskUse(folders: string[], enoughBytes: number): Promise<number> {
  let bytes = 0;
  // Numbers of files are those of their device: two of them may have the same.
  const linked = new Set<string>();
  const bytesOf = ({ size, nlink, dev, ino }: Stats): number => {
    if (nlink > 1 && linked.has(`${dev} ${ino}`)) return 0;
    if (nlink > 1) linked.add(`${dev} ${ino}`);
    return Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES;
  };
  const waiting = [...folders];
  for (let folder = waiting.pop(); folder !== undefined && bytes <= enoughBytes; folder = waiting.pop()) {
    const entries: Dirent[] = await readdir(folder, { withFileTypes: true }).catch((error) => {
      bytes += bytesBehind(error);
      return [];
    });
    for (const entry of entries) {
      if (bytes > enoughBytes) break;
      const path = join(folder, entry.name);
      bytes += BLOCK_BYTES;
      if (entry.isDirectory()) waiting.push(path);
      else bytes += await lstat(path).then(bytesOf, bytesBehind);
    }
  }
  return bytes;
}

/** Deeper than a path can say: nothing but a way around this count leads there. Otherwise it is just gone. */
function bytesBehind(error: NodeJS.ErrnoException): number {
  return error.code === "ENAMETOOLONG" ? Number.POSITIVE_INFINITY : 0;
}

/**
 * What a process holds open that has no name any more and still takes room, on these devices or on any. Nothing where
 * there is no `/proc`.
 */
export async function namelessBytes(pid: number, devices?: Set<number>): Promise<number> {
  const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const sizes = descriptors.map(async (descriptor) => {
    const file = await stat(`/proc/${pid}/fd/${descriptor}`).catch(() => undefined);
    if (!file?.isFile() || file.nlink > 0 || (devices && !devices.has(file.dev))) return 0;
    return file.blocks * 512;
  });
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
