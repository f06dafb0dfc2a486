import { close as closeCallback, constants, fchmodSync, openSync, renameSync, rmSync, writeFile } from "node:fs";
import { promisify } from "node:util";
import { CellwrightError } from "../../errors.ts";
import { at } from "../../folders/folder.ts";
import { temporaryName } from "../../folders/temporary.ts";
import { shown } from "../path.ts";
import type { OpenedPath } from "./open.ts";
import { requireRegularFile } from "./read.ts";

const writeAll = promisify(writeFile) as (fd: number, bytes: Uint8Array) => Promise<void>;
const close = promisify(closeCallback);

/**
 * Writes a file atomically, so that no reader sees half of it. A script stays executable when it is edited, unless only
 * the user may decide that.
 */
export async function writeWhole(
  place: OpenedPath,
  path: string,
  bytes: Uint8Array,
  { keepExecutable = true }: { keepExecutable?: boolean } = {},
): Promise<{ created: boolean }> {
  if (place.name === ".") throw new CellwrightError("invalid_input", `\`${shown(path)}\` is a folder, not a file.`);
  if (place.stats) requireRegularFile(place.stats, path);
  const temporary = at(place.folder, temporaryName());
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);
  const fd = openSync(temporary, flags, 0o600);
  try {
    try {
      await writeAll(fd, bytes);
      if (place.stats && keepExecutable) fchmodSync(fd, (Number(place.stats.mode) & 0o700) | 0o600);
    } finally {
      await close(fd);
    }
    renameSync(temporary, at(place.folder, place.name));
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  return { created: !place.stats };
}
