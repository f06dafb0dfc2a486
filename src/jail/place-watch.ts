import { type FSWatcher, watch } from "node:fs";
import { basename, dirname, join } from "node:path";
import { idOf } from "./placeholders.ts";

export interface PlaceWatch {
  stop(): void;
}

/** For file systems that tell nothing, and for what was missed. */
const LOOK_MS = 1_000;

/** Calls with those of the relative paths at which something else is than before, one call after another. */
export function watchPlaces(
  root: string,
  paths: string[],
  changed: (paths: string[]) => Promise<void>,
  { lookMs = LOOK_MS }: { lookMs?: number } = {},
): PlaceWatch {
  const known = new Map(paths.map((path) => [path, idOf(join(root, path))]));
  const names = new Set(paths.map((path) => basename(path)));
  let isLooking = false;
  let isStopped = false;
  const look = async () => {
    if (isLooking || isStopped) return;
    isLooking = true;
    try {
      for (let found = replaced(); found.length > 0 && !isStopped; found = replaced()) {
        await changed(found);
        for (const path of found) known.set(path, idOf(join(root, path)));
      }
    } finally {
      isLooking = false;
    }
  };
  const replaced = () => paths.filter((path) => idOf(join(root, path)) !== known.get(path));
  const folders = [...new Set(paths.map((path) => dirname(join(root, path))))];
  const watchers = folders.flatMap((folder) => attempt(folder, (name) => void (names.has(name) && look())));
  const timer = setInterval(look, lookMs).unref();
  return {
    stop() {
      isStopped = true;
      clearInterval(timer);
      for (const watcher of watchers) watcher.close();
    },
  };
}

function attempt(folder: string, noticed: (name: string) => void): FSWatcher[] {
  try {
    const watcher = watch(folder, { persistent: false }, (_, name) => noticed(String(name)));
    // The folder itself may go; the looks now and then remain.
    watcher.on("error", () => {});
    return [watcher];
  } catch {
    return [];
  }
}
