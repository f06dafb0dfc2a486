import { realpath } from "node:fs/promises";
import { resolve } from "node:path";

/** A user's file or folder that code may read: its real path, and the path for code. */
export interface Readable {
  from: string;
  at: string;
}

/** Folders with Python's or Cellwright's files. */
const taken = ["/workspace", "/site", "/image", "/lib", "/dev", "/proc"];
/** Folders that cannot be mounted themselves, but folders below them can. */
const shared = ["/", "/tmp", "/home", "/home/user", "/usr", "/etc"];

/** The paths of --allow-read as kernels mount them, and notes about those that cannot be mounted. */
export async function findReadable(paths: string[]): Promise<{ readable: Readable[]; notes: string[] }> {
  const found = await Promise.all(paths.map(findOne));
  return {
    readable: found.filter((one) => typeof one !== "string"),
    notes: found.filter((one) => typeof one === "string"),
  };
}

async function findOne(path: string): Promise<Readable | string> {
  const at = virtualPath(resolve(path));
  if (shared.includes(at) || taken.some((folder) => at === folder || at.startsWith(`${folder}/`))) {
    return `--allow-read=${path} is not possible here: Python's own files are in ${at}. Name a folder below it.`;
  }
  try {
    return { from: await realpath(path), at };
  } catch {
    return `--allow-read=${path} is not possible: it does not exist.`;
  }
}

/** `C:\data` is `/C:/data` in the kernel. */
function virtualPath(path: string): string {
  const slashes = process.platform === "win32" ? path.replaceAll("\\", "/") : path;
  return slashes.startsWith("/") ? slashes : `/${slashes}`;
}
