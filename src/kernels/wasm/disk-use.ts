import type { Dirent } from "node:fs";
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";

const BLOCK_BYTES = 4096;

/** What folders take on disk, near enough; stops counting above `enoughBytes`. Files may come and go meanwhile. */
export async function diskUse(folders: string[], enoughBytes: number): Promise<number> {
  let bytes = 0;
  const waiting = [...folders];
  for (let folder = waiting.pop(); folder !== undefined && bytes <= enoughBytes; folder = waiting.pop()) {
    const entries: Dirent[] = await readdir(folder, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      if (bytes > enoughBytes) break;
      const path = join(folder, entry.name);
      bytes += BLOCK_BYTES;
      if (entry.isDirectory()) waiting.push(path);
      else
        bytes += await lstat(path).then(
          (stat) => Math.ceil(stat.size / BLOCK_BYTES) * BLOCK_BYTES,
          () => 0,
        );
    }
  }
  return bytes;
}
