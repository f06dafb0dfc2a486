import type { BigIntStats } from "node:fs";
import { entries as entriesOf, type Folder, lstatIn, type Name } from "../../folders/folder.ts";
import { isTemporary } from "../../folders/temporary.ts";
import { failedWith } from "../../system-error.ts";
import { entryOf } from "../entry.ts";
import { MAX_DEPTH } from "../path.ts";
import type { FileEntry } from "../workspace.ts";

/** Names sorted at most per folder. A listing of a larger one starts with the names that the disk returns first. */
const MAX_SORTED = 10_000;

/** Entries in file tree order: sorted by name, a folder's content right after the folder. */
export function listFolder(
  folder: Folder,
  options: {
    prefix: string;
    recursive: boolean;
    limit: number;
    /** Entries to leave out. */
    isHidden?: (path: string, stats: BigIntStats, folder: Folder, name: Name) => boolean;
  },
): { entries: FileEntry[]; more: boolean } {
  const entries: FileEntry[] = [];
  const more = !inside(folder, options.prefix, 0);
  return { entries, more };

  function inside(current: Folder, prefix: string, depth: number): boolean {
    const { sorted, all } = sortedNames(current);
    for (const name of sorted) {
      const stats = lstatIn(current, name);
      if (!stats || options.isHidden?.(`${prefix}${name}`, stats, current, name)) continue;
      if (entries.length === options.limit) return false;
      const entry = described(`${prefix}${name}`, stats);
      entries.push(entry);
      if (entry.kind !== "folder" || !options.recursive) continue;
      if (depth === MAX_DEPTH || !below(current, name, `${entry.path}/`, depth + 1)) return false;
    }
    return all;
  }

  function below(current: Folder, name: Name, prefix: string, depth: number): boolean {
    let next: Folder | undefined;
    try {
      next = current.enter(name);
      return inside(next, prefix, depth);
    } catch (error) {
      // Removed or replaced during the listing, or made unreadable by a cell.
      if (!failedWith(error, "ENOENT", "ENOTDIR", "ELOOP", "EACCES")) throw error;
      return true;
    } finally {
      next?.close();
    }
  }
}

function sortedNames(folder: Folder): { sorted: Name[]; all: boolean } {
  const sorted: Name[] = [];
  let all = true;
  for (const { name } of entriesOf(folder)) {
    if (isTemporary(String(name))) continue;
    if (sorted.length === MAX_SORTED) {
      all = false;
      break;
    }
    sorted.push(name);
  }
  sorted.sort((one, other) => (String(one) < String(other) ? -1 : 1));
  return { sorted, all };
}

function described(path: string, stats: BigIntStats): FileEntry {
  const kind = stats.isFile() ? "file" : stats.isDirectory() ? "folder" : "other";
  return entryOf({
    path,
    kind,
    sizeBytes: kind === "file" ? Number(stats.size) : 0,
    modifiedMs: Number(stats.mtimeMs),
  });
}
