import { mimeTypeOf } from "./mime.ts";
import type { FileEntry } from "./workspace.ts";

export function entryOf({
  modifiedMs,
  ...entry
}: Pick<FileEntry, "path" | "kind" | "sizeBytes"> & { modifiedMs: number }): FileEntry {
  const mimeType = entry.kind === "folder" ? "inode/directory" : mimeTypeOf(entry.path);
  return { ...entry, modifiedAt: isoDate(modifiedMs), mimeType };
}

/** A file's time may be set to a year that JavaScript does not have. */
function isoDate(timeMs: number): string {
  return new Date(Math.min(Math.max(timeMs, -8.64e15), 8.64e15)).toISOString();
}
