import { type BigIntStats, lstatSync, opendirSync } from "node:fs";

/** A directory that was entered without following a link, and what can be done in it one name at a time. */
export interface Folder {
  /** A path that leads to this very directory, whatever is renamed above it meanwhile, until it is closed. */
  readonly self: string;
  /** The directory of this name. Throws ENOTDIR or ELOOP if it is anything else, a link included. */
  enter(name: Name): Folder;
  /** Opens a file for reading without blocking, if `accept` does not throw for what it turns out to be. */
  openFile(name: Name, accept: (stats: BigIntStats) => void): number;
  close(): void;
}

/** Bytes for a name that is not UTF-8 and so has no faithful string. */
export type Name = string | Buffer;
/** Enters a directory from outside: links above it are followed, and it itself must not be one. */
export type OpenFolder = (path: string) => Folder;

/** For calls that do not follow a link in the last part of a path: lstat, readlink, mkdir, rename, unlink, rmdir. */
export function at(folder: Folder, name: Name): string | Buffer {
  if (typeof name === "string") return `${folder.self}/${name}`;
  return Buffer.concat([Buffer.from(`${folder.self}/`), name]);
}

export function look(folder: Folder, name: Name): BigIntStats | undefined {
  return lstatSync(at(folder, name), { bigint: true, throwIfNoEntry: false });
}

/** What is in a folder, read bit by bit: one of a million entries is not in memory at once. */
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
