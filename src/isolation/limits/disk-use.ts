import type { Dirent, Stats } from "node:fs";
import { lstat, readdir, stat } from "node:fs/promises";
import { join } from "node:path";

/** Counted for each directory entry and for the smallest content. */
export const BLOCK_BYTES = 4096;

/**
 * Approximate disk usage of folders; stops counting above `enoughBytes`. Tolerates files that change meanwhile. A file
 * with several hard links is counted once.
 */
export async function diskUse(folders: string[], enoughBytes: number): Promise<number> {
  let bytes = 0;
  // Inode numbers are unique per device only.
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

/** Nesting beyond the path limit is an attempt to evade the count. Any other error means that the entry is gone. */
function bytesBehind(error: NodeJS.ErrnoException): number {
  return error.code === "ENAMETOOLONG" ? Number.POSITIVE_INFINITY : 0;
}

/** Disk space of deleted files that a process holds open, on these devices or on any. 0 without `/proc`. */
export async function namelessBytes(pid: number, devices?: Set<number>): Promise<number> {
  const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const sizes = descriptors.map(async (descriptor) => {
    const file = await stat(`/proc/${pid}/fd/${descriptor}`).catch(() => undefined);
    if (!file?.isFile() || file.nlink > 0 || (devices && !devices.has(file.dev))) return 0;
    return file.blocks * 512;
  });
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
