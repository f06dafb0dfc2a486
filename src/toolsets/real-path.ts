import { realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";

/** Absolute, with symlinks resolved in the part of the path that exists. */
export function realPath(path: string): string {
  // Neither normalized nor resolved by Node: `..` after a symlink means the folder above its target.
  const plain = isAbsolute(path) ? path : resolve(path);
  try {
    return realpathSync.native(plain);
  } catch {
    const above = dirname(plain);
    return above === plain ? plain : join(realPath(above), basename(plain));
  }
}
