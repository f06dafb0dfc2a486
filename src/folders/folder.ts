import { type BigIntStats, lstatSync, opendirSync } from "node:fs";

/** A directory that was opened without following a symlink; operations in it take one name at a time. */
export interface Folder {
  /** A path to this very directory, even if a folder above it is renamed, until it is closed. */
  readonly self: string;
  /** Opens the subdirectory of this name. Throws ENOTDIR or ELOOP for anything else, including a symlink. */
  enter(name: Name): Folder;
  /** Opens a file for reading without blocking. `accept` throws if the opened file is not acceptable. */
  openFile(name: Name, accept: (stats: BigIntStats) => void): number;
  close(): void;
}

/** Bytes for a name that is not valid UTF-8. */
export type Name = string | Buffer;
/** Opens a directory by path: symlinks above it are followed, but it must not be one itself. */
export type OpenFolder = (path: string) => Folder;

/** For calls that do not follow a symlink in the last component: lstat, readlink, mkdir, rename, unlink, rmdir. */
export function at(folder: Folder, name: Name): string | Buffer {
  if (typeof name === "string") return `${folder.self}/${name}`;
  return Buffer.concat([Buffer.from(`${folder.self}/`), name]);
}

export function lstatIn(folder: Folder, name: Name): BigIntStats | undefined {
  return lstatSync(at(folder, name), { bigint: true, throwIfNoEntry: false });
}

/** A folder's entries, read in batches: a folder of a million entries is not in memory at once. */
export function* entries(folder: Folder): Generator<{ name: Name; isFolder: boolean }> {
  const directory = opendirSync(folder.self, { encoding: "buffer" as BufferEncoding, bufferSize: 256 });
  try {
    for (let entry = directory.readSync(); entry; entry = directory.readSync()) {
      yield { name: readable(entry.name as unknown as Buffer), isFolder: entry.isDirectory() };
    }
  } finally {
    directory.closeSync();
  }
}

function readable(bytes: Buffer): Name {
  const text = bytes.toString("utf8");
  return text.includes("\ufffd") && !Buffer.from(text).equals(bytes) ? bytes : text;
}
