import type { FileChange } from "../execution.ts";

/** A session's folder. Paths are relative to it, with `/`. Every workspace passes `test/contracts/workspace.ts`. */
export interface Workspace {
  /** Entries of a folder, sorted by name; at most `limit`, with `more` set when there were more. */
  list(
    path: string,
    options?: { recursive?: boolean; limit?: number },
  ): Promise<{ entries: FileEntry[]; more: boolean }>;

  /** A regular file's bytes, consistent or an error. `too_large` past `maxBytes`. */
  read(path: string, options: { maxBytes: number }): Promise<{ bytes: Uint8Array; mimeType: string }>;

  /** Creates or replaces a file whole, and the folders above it. */
  write(path: string, bytes: Uint8Array): Promise<{ created: boolean }>;

  /** Removes a file, or a folder with all that is in it. */
  remove(path: string): Promise<void>;

  /** What is there now, to be compared later. */
  mark(): Promise<Mark>;
  /** What was created, changed or deleted since. `complete` is false when the folder was too large to look through. */
  changedSince(mark: Mark): Promise<{ changes: FileChange[]; complete: boolean; totalBytes: number }>;

  /** The same path without links in it, whether or not there is anything. Absent: nobody can say. */
  resolve?(path: string): Promise<string>;

  /** The file's real place on this machine, to show to a local user; absent where there is none. */
  hostPath?(path: string): string;
}

export interface FileEntry {
  path: string;
  kind: "file" | "folder" | "other";
  sizeBytes: number;
  modifiedAt: string;
  mimeType: string;
}

/** Opaque to all but the workspace that made it. */
export interface Mark {
  readonly files: ReadonlyMap<string, string>;
  readonly complete: boolean;
}
