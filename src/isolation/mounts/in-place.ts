import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import type { Mount } from "../jail.ts";

/** Mounts each path at itself and at its real path, which files in it may refer to. Missing paths are left out. */
export async function mountsInPlace(paths: string[]): Promise<Mount[]> {
  const mounts: Mount[] = [];
  for (const path of new Set(paths.map((each) => resolve(each)))) {
    const real = await realpath(path).catch(() => undefined);
    if (real === undefined) continue;
    mounts.push({ from: real, at: path });
    if (real !== path) mounts.push({ from: real, at: real });
  }
  return mounts;
}
