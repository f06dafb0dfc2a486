import { basename, dirname } from "node:path";
import { idOf, type Placeholder } from "../protected/placeholders.ts";
import { otherNamespaces } from "./jail-mounts.ts";

/**
 * Which of these are mount points in a running jail, of this or another process: removing a mount point from outside
 * would remove the mount inside, and with it the protection. Compared by device and inode.
 */
export function mountedInJails(placeholders: Placeholder[]): Set<Placeholder> {
  const found = new Set<Placeholder>();
  if (placeholders.length === 0) return found;
  const folders = new Set(placeholders.map(({ path }) => idOf(dirname(path))));
  const names = new Set(placeholders.map(({ path }) => basename(path)));
  for (const { points, idAt } of otherNamespaces()) {
    const candidates = [...points].filter((point) => names.has(basename(point)));
    const shown = new Set([...new Set(candidates.map(dirname))].filter((folder) => folders.has(idAt(folder))));
    const ids = new Set(candidates.filter((point) => shown.has(dirname(point))).map(idAt));
    for (const placeholder of placeholders) if (ids.has(placeholder.id)) found.add(placeholder);
  }
  return found;
}
