import type { FileChange } from "../execution.ts";

/** A session's folder. Paths are relative to it, with `/`. Every workspace passes `test/contracts/workspace.ts`. */
export interface Workspace {
  /** Entries of a folder, sorted by name; at most `limit`, with `more` set when there were more. */
  list(
    path: string,
    options?: { recursive?: boolean; limit?: number },
  ): Promise<{ entries: FileEntry[]; more: boolean }>;

  /** A regular file's bytes: a consistent read, or an error. `too_large` past `maxBytes`. */
  read(path: string, options: { maxBytes: number }): Promise<{ bytes: Uint8Array; mimeType: string }>;

  /** Creates or replaces a file atomically, and creates the folders above it. */
  write(path: string, bytes: Uint8Array): Promise<{ created: boolean }>;

  /** Removes a file, or a folder recursively. */
  remove(path: string): Promise<void>;

  /** A snapshot of the file list, for `changedSince`. */
  mark(): Promise<Mark>;
  /**
   * Files created, changed or deleted since the mark, and a new mark. `complete` is false if the folder was too large
   * to scan.
   */
  changedSince(mark: Mark): Promise<{ changes: FileChange[]; complete: boolean; totalBytes: number; mark: Mark }>;

  /** The path with all symlinks resolved, whether or not it exists. Absent: cannot be determined. */
  resolve?(path: string): Promise<string>;

  /** The file's path on this machine, to show to a local user; absent for remote files. */
  hostPath?(path: string): string;
}

export interface FileEntry {
  path: string;
  kind: "file" | "folder" | "other";
  sizeBytes: number;
  modifiedAt: string;
  mimeType: string;
}

/** Opaque to everything but the workspace that made it. */
export interface Mark {
  readonly files: ReadonlyMap<string, string>;
  readonly complete: boolean;
}
