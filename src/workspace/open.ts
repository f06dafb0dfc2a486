import { type BigIntStats, mkdirSync, readlinkSync } from "node:fs";
import type { CellwrightError } from "../errors.ts";
import { at, entries, type Folder, look, type OpenFolder } from "./folder.ts";
import { MAX_DEPTH, namesOf, outside } from "./path.ts";
import type { ProtectedPlaces } from "./protected-places.ts";
import { explain, missing } from "./refusals.ts";
import { failedWith } from "./system-error.ts";

/** Where a path leads: a name in a folder that is held open. The name is `.` for the workspace itself. */
export interface Place {
  readonly folder: Folder;
  readonly name: string;
  /** The way to it from the workspace, without links. */
  readonly path: string;
  /** What is there; absent if nothing is. */
  readonly stats: BigIntStats | undefined;
  close(): void;
}

export interface OpenOptions {
  openFolder: OpenFolder;
  /** Make the folders above that are missing. */
  create?: boolean;
  /** Stop at a link in the last part instead of following it, to remove it. */
  keepLastLink?: boolean;
  /** For what is going to be changed: what must stay as it is. */
  guard?: ProtectedPlaces | undefined;
}

/** As many as Linux follows before it says ELOOP. */
const MAX_LINKS = 40;

/** Names looked through for a suggestion; a message is not worth reading a million of them. */
const MAX_SUGGESTIONS_FROM = 1_000;

/**
 * The one function that opens a path. It goes name by name from one held folder to the next, so nothing that is swapped
 * behind it can lead it out, and follows links itself: relative ones, and never above the workspace.
 */
export function openPath(root: string, path: string, options: OpenOptions): Place {
  const pending = namesOf(path).reverse();
  const trail: Folder[] = [];
  const walked: string[] = [];
  const close = () => {
    for (const folder of trail.splice(0).reverse()) folder.close();
  };
  let links = 0;
  try {
    if (options.create) mkdirSync(root, { recursive: true, mode: 0o700 });
    trail.push(options.openFolder(root));
    options.guard?.entered(top(trail), path);
    for (;;) {
      const folder = top(trail);
      const name = pending.pop();
      if (name === undefined) return { folder, name: ".", path: walked.join("/"), stats: look(folder, "."), close };
      if (name === "..") {
        if (trail.length === 1) throw outside(path, "a link in it leads out of the workspace");
        trail.pop()?.close();
        walked.pop();
        continue;
      }
      options.guard?.named(folder, name, path);
      const stats = look(folder, name);
      const last = pending.length === 0;
      if (stats?.isSymbolicLink() && !(last && options.keepLastLink)) {
        links += 1;
        if (links > MAX_LINKS) throw outside(path, "it goes through too many links");
        const target = readlinkSync(at(folder, name));
        if (target.startsWith("/")) throw outside(path, "a link in it leads out of the workspace");
        const steps = target.split("/").filter((step) => step !== "" && step !== ".");
        pending.push(...steps.reverse());
        continue;
      }
      if (last) {
        options.guard?.found(stats, path);
        return { folder, name, path: [...walked, name].join("/"), stats, close };
      }
      if (!stats) {
        if (!options.create) throw notFound(path, folder, name);
        make(folder, name);
      }
      if (trail.length > MAX_DEPTH) throw outside(path, "the links in it lead too deep");
      const next = folder.enter(name);
      trail.push(next);
      options.guard?.entered(next, path);
      walked.push(name);
    }
  } catch (error) {
    close();
    throw explain(error, path);
  }
}

/** Says which names are near the one that is not there. */
export function notFound(path: string, folder: Folder, name: string): CellwrightError {
  const there: string[] = [];
  for (const { name: other } of entries(folder)) {
    if (typeof other === "string") there.push(other);
    if (there.length === MAX_SUGGESTIONS_FROM) break;
  }
  return missing(path, name, there);
}

function top(trail: Folder[]): Folder {
  const folder = trail.at(-1);
  if (!folder) throw new Error("The walk has left its own root.");
  return folder;
}

function make(folder: Folder, name: string): void {
  try {
    mkdirSync(at(folder, name), { mode: 0o700 });
  } catch (error) {
    if (!failedWith(error, "EEXIST")) throw error;
  }
}
