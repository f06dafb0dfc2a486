import { posix } from "node:path";
import type { FileEntry, Workspace } from "../../workspace/workspace.ts";
import { baseName, isHiddenInLists } from "./names.ts";

/** The lines of `list_dir`: folders first, then by name. */
export async function listing(workspace: Workspace, folder: string): Promise<string[]> {
  const { entries } = await workspace.list(folder);
  const shown: { name: string; entry: FileEntry }[] = [];
  for (const each of entries) {
    const name = baseName(each.path);
    const entry = isHiddenInLists(name) ? undefined : await behindLink(workspace, each);
    if (entry) shown.push({ name, entry });
  }
  shown.sort((one, other) => order(one).localeCompare(order(other), "en"));
  return shown.length > 0 ? shown.map(line) : ["(empty directory)"];
}

function order({ name, entry }: { name: string; entry: FileEntry }): string {
  return `${entry.kind === "folder" ? 0 : 1}${name.toLowerCase()}`;
}

function line({ name, entry }: { name: string; entry: FileEntry }): string {
  if (entry.kind === "folder") return `directory ${name} - modified: ${entry.modifiedAt}`;
  const kind = name.endsWith(".ipynb") ? "notebook" : "file";
  return `${kind} ${name} (${showSize(entry.sizeBytes)}) - modified: ${entry.modifiedAt}`;
}

/** A symlink is shown as its target; broken links and special files are not shown. */
async function behindLink(workspace: Workspace, entry: FileEntry): Promise<FileEntry | undefined> {
  if (entry.kind !== "other") return entry;
  try {
    const path = (await workspace.resolve?.(entry.path)) ?? entry.path;
    const { entries } = await workspace.list(posix.dirname(path));
    return entries.find((other) => other.path === path && other.kind !== "other");
  } catch {
    return undefined;
  }
}

function showSize(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 ** 2 ? `${tenths(bytes, 1024)} KB` : `${tenths(bytes, 1024 ** 2)} MB`;
}

/** One decimal, rounded half to even, like Python. */
function tenths(bytes: number, unit: number): string {
  const whole = Math.floor((bytes * 10) / unit);
  const rest = (bytes * 10) % unit;
  const isUp = rest * 2 > unit || (rest * 2 === unit && whole % 2 === 1);
  return ((whole + (isUp ? 1 : 0)) / 10).toFixed(1);
}
