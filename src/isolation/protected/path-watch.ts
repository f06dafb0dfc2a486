import { type FSWatcher, watch } from "node:fs";
import { basename, dirname, join } from "node:path";
import { idOf } from "./placeholders.ts";

export interface PathWatch {
  stop(): void;
}

/** Polling interval, for file systems without change events and for missed events. */
const POLL_MS = 1_000;

/** Calls `changed` with the relative paths whose file or folder was replaced, one call at a time. */
export function watchPaths(
  root: string,
  paths: string[],
  changed: (paths: string[]) => Promise<void>,
  { pollMs = POLL_MS }: { pollMs?: number } = {},
): PathWatch {
  const known = new Map(paths.map((path) => [path, idOf(join(root, path))]));
  const names = new Set(paths.map((path) => basename(path)));
  let isChecking = false;
  let isStopped = false;
  const check = async () => {
    if (isChecking || isStopped) return;
    isChecking = true;
    try {
      for (let found = replaced(); found.length > 0 && !isStopped; found = replaced()) {
        await changed(found);
        for (const path of found) known.set(path, idOf(join(root, path)));
      }
    } finally {
      isChecking = false;
    }
  };
  const replaced = () => paths.filter((path) => idOf(join(root, path)) !== known.get(path));
  const folders = [...new Set(paths.map((path) => dirname(join(root, path))))];
  const watchers = folders.flatMap((folder) => tryWatch(folder, (name) => void (names.has(name) && check())));
  const timer = setInterval(check, pollMs).unref();
  return {
    stop() {
      isStopped = true;
      clearInterval(timer);
      for (const watcher of watchers) watcher.close();
    },
  };
}

function tryWatch(folder: string, noticed: (name: string) => void): FSWatcher[] {
  try {
    const watcher = watch(folder, { persistent: false }, (_, name) => noticed(String(name)));
    // The folder itself may be removed; polling continues.
    watcher.on("error", () => {});
    return [watcher];
  } catch {
    return [];
  }
}
