import { type BigIntStats, mkdirSync, readlinkSync } from "node:fs";
import type { CellwrightError } from "../../errors.ts";
import { at, entries, type Folder, lstatIn, type OpenFolder } from "../../folders/folder.ts";
import { failedWith } from "../../system-error.ts";
import { MAX_DEPTH, namesOf, outside } from "../path.ts";
import { explain, missing } from "../refusals.ts";
import type { ProtectedPaths } from "./protected-paths.ts";

/** A resolved path: a name in a folder that is held open. The name is `.` for the workspace itself. */
export interface OpenedPath {
  readonly folder: Folder;
  readonly name: string;
  /** The path from the workspace, without symlinks. */
  readonly path: string;
  /** Undefined if nothing exists there. */
  readonly stats: BigIntStats | undefined;
  close(): void;
}

export interface OpenOptions {
  openFolder: OpenFolder;
  /** Create missing parent folders. */
  create?: boolean;
  /** Do not follow a symlink in the last component, so that it can be removed. */
  keepLastLink?: boolean;
  /** For changes: the paths that must not be changed. */
  guard?: ProtectedPaths | undefined;
}

/** Linux's own limit, after which it returns ELOOP. */
const MAX_LINKS = 40;

/** Names searched for a suggestion; an error message is not worth reading a million of them. */
const MAX_SUGGESTIONS_FROM = 1_000;

/**
 * The one function that opens a path. It walks from one held folder to the next, so that nothing swapped behind it can
 * lead out. It follows symlinks itself: only relative ones, and never above the workspace.
 */
export function openPath(root: string, path: string, options: OpenOptions): OpenedPath {
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
      if (name === undefined) return { folder, name: ".", path: walked.join("/"), stats: lstatIn(folder, "."), close };
      if (name === "..") {
        if (trail.length === 1) throw outside(path, "a link in it leads out of the workspace");
        trail.pop()?.close();
        walked.pop();
        continue;
      }
      options.guard?.named(folder, name, path);
      const stats = lstatIn(folder, name);
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

/** Suggests similar names. */
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
