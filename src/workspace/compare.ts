import type { FileChange } from "../execution.ts";
import { mimeTypeOf } from "./mime.ts";
import type { Mark } from "./workspace.ts";

/** The differences. Where a mark is incomplete, a file that is missing from it proves nothing and is ignored. */
export function compare(before: Mark, after: Mark): FileChange[] {
  const changes: FileChange[] = [];
  for (const [path, now] of after.files) {
    const then = before.files.get(path);
    if (then === now || (then === undefined && !before.complete)) continue;
    changes.push(described(path, then === undefined ? "created" : "modified", Number.parseInt(now, 10)));
  }
  for (const path of before.files.keys()) {
    if (after.complete && !after.files.has(path)) changes.push(described(path, "deleted", 0));
  }
  return changes.sort((one, other) => (one.path < other.path ? -1 : 1));
}

function described(path: string, change: FileChange["change"], sizeBytes: number): FileChange {
  return { path, change, sizeBytes, mimeType: mimeTypeOf(path) };
}
