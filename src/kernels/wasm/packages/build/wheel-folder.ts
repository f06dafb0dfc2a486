import { readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { CellwrightError } from "../../../../errors.ts";

/** The content of the local wheel folder. */
export interface WheelFolder {
  /** The folder's real path, for permissions by path; undefined if no folder is configured. */
  path?: string | undefined;
  files: string[];
  /** Changes when a file does. */
  fingerprint: string;
}

export async function readWheelFolder(folder: string | undefined): Promise<WheelFolder> {
  if (!folder) return { files: [], fingerprint: "" };
  try {
    const path = await realpath(folder);
    const names = (await readdir(path)).filter((name) => /\.(whl|zip)$/.test(name)).sort();
    const files = names.map((name) => join(path, name));
    const stats = await Promise.all(files.map((file) => stat(file)));
    const marks = stats.map(({ size, mtimeMs }, index) => [names[index], size, mtimeMs]);
    return { path, files, fingerprint: JSON.stringify([path, marks]) };
  } catch (cause) {
    throw new CellwrightError("invalid_input", `The folder of --package-dir cannot be read: ${folder}.`, {
      cause,
      hint: "Name an existing folder of wheels.",
    });
  }
}
