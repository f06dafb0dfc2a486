import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  realpathSync,
} from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join, relative, resolve } from "node:path";

export function homeOf(env: NodeJS.ProcessEnv): string {
  return env.HOME || env.USERPROFILE || homedir();
}

/** Makes a path absolute, and expands `~`. */
export function expanded(path: string, { home, workingDir }: { home: string; workingDir: string }): string {
  return resolve(workingDir, /^~(?=$|[/\\])/.test(path) ? home + path.slice(1) : path);
}

/** Paths of the subfolders, sorted, without hidden ones; empty if the folder does not exist. */
export function foldersIn(path: string): string[] {
  try {
    const entries = readdirSync(path, { withFileTypes: true });
    return entries
      .filter((entry) => (entry.isDirectory() || entry.isSymbolicLink()) && !entry.name.startsWith("."))
      .map(({ name }) => join(path, name))
      .sort();
  } catch {
    return [];
  }
}

export function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** Maximum size of a settings file. */
const MAX_SMALL_BYTES = 256 * 1024;

/** The text of an untrusted file; empty if it is missing, too large, or not a regular file. */
export function smallText(path: string): string {
  let fd: number | undefined;
  try {
    fd = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    const { size } = fstatSync(fd);
    if (!fstatSync(fd).isFile() || size > MAX_SMALL_BYTES) return "";
    const content = Buffer.alloc(size);
    return content.toString("utf8", 0, readSync(fd, content, 0, size, 0));
  } catch {
    return "";
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** Resolves symlinks; returns the path unchanged if that fails. */
export function realPath(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return path;
  }
}

export function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === "" || (!isAbsolute(way) && way.split(/[/\\]/)[0] !== "..");
}

export function linkTarget(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}
