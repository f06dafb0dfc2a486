import { mimeTypeOf } from "./mime.ts";
import type { FileEntry } from "./workspace.ts";

export function entryOf({
  modifiedMs,
  ...entry
}: Pick<FileEntry, "path" | "kind" | "sizeBytes"> & { modifiedMs: number }): FileEntry {
  const mimeType = entry.kind === "folder" ? "inode/directory" : mimeTypeOf(entry.path);
  return { ...entry, modifiedAt: isoDate(modifiedMs), mimeType };
}

/** A file's timestamp may be out of JavaScript's range. */
function isoDate(timeMs: number): string {
  return new Date(Math.min(Math.max(timeMs, -8.64e15), 8.64e15)).toISOString();
}
