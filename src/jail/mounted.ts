import { basename, dirname } from "node:path";
import { otherNamespaces } from "./jail-mounts.ts";
import { idOf, type Placeholder } from "./placeholders.ts";

/**
 * Which of these are mount points in a jail that still runs, ours or another program's: removing a mount point from
 * outside takes the mount away inside, and with it the protection. Told by device and inode, as each jail sees it.
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
