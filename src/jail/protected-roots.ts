import { lstatSync, readFileSync, realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, relative, resolve } from "node:path";
import { CellwrightError } from "../errors.ts";
import { liftablePaths, obeyedPaths } from "../obeyed.ts";
import { linkedRepositories } from "./git-links.ts";
import { placesInSettings } from "./git-settings.ts";

/** A folder that code may write to, and what below it stays as it is. */
export interface ProtectedRoot {
  /** Its real path. */
  root: string;
  /** Relative paths that hosts obey, existing or not. */
  paths: string[];
  /** Those among them that must not be folders where they do not exist: git would refuse to work. */
  files: string[];
}

/** What the operator's --allow-write says: folders and files to write to, and protected names that are lifted. */
export interface WriteRules {
  /** Without those that only lift a protection. */
  allowWrite: string[];
  /** Absolute. */
  lifted: string[];
}

/** A protected name means the one in the workspace, wherever this program was started. */
export function writeRules(allowWrite: string[], workspace: string | undefined): WriteRules {
  const named = allowWrite.map((path) =>
    workspace !== undefined && isLiftable(path.replace(/^\.\//, "").split("/")[0])
      ? join(resolve(workspace), path)
      : resolve(path),
  );
  const roots = [...(workspace === undefined ? [] : [workspace]), ...named].map(realPath);
  const lifted = named.filter((path) => roots.some((root) => isLiftable(relativeTo(root, realParent(path)))));
  return { allowWrite: named.filter((path) => !lifted.includes(path)), lifted };
}

/** The protected paths below each of these folders. What is no folder has none. */
export function protectedRoots(folders: string[], lifted: string[]): ProtectedRoot[] {
  const roots = [...new Set(folders.map(realPath))].filter((path) => isFolder(path));
  return roots.map((root) => {
    const open = lifted.map((path) => relativeTo(root, realParent(path))).filter((path) => path !== undefined);
    const has = (name: string) => lstatSync(join(root, name), { throwIfNoEntry: false }) !== undefined;
    const isHome = root === realPath(homedir());
    const obeyed = obeyedPaths({ hasRepository: isRepository(join(root, ".git")), isHome, has });
    const linked = linkedPaths(root);
    // Who lets code change all of `.git` lets it change what that names.
    const { folders, files } = open.includes(".git") ? { folders: [], files: [] } : namedPaths(root);
    const paths = [...new Set([...obeyed, ...linked, ...folders, ...files])];
    const isKept = (path: string) => !open.some((one) => path === one || path.startsWith(`${one}/`));
    return { root, paths: paths.filter(isKept), files: files.filter(isKept) };
  });
}

function isLiftable(path: string | undefined): boolean {
  return path !== undefined && liftablePaths.has(path.replace(/^\.\//, "").replace(/\/+$/, ""));
}

function linkedPaths(root: string): string[] {
  try {
    return linkedRepositories(root);
  } catch (cause) {
    throw new CellwrightError(
      "kernel_start_failed",
      `The index of the git repository in \`${root}\` cannot be read: ${(cause as Error).message}. It says where git would obey what code writes.`,
      { hint: "See what `git status` says there, or use a workspace without a repository.", cause },
    );
  }
}

function namedPaths(root: string): { folders: string[]; files: string[] } {
  const { folders, files } = placesInSettings(root);
  if (folders.includes(root)) {
    throw new CellwrightError(
      "kernel_start_failed",
      `The settings of git have \`${root}\` itself as the folder of hooks, so git would run what code writes there.`,
      { hint: "Set `core.hooksPath` to a folder of its own, or start Cellwright with --allow-write=.git." },
    );
  }
  const fromRoot = (path: string) => relative(root, path);
  return { folders: folders.map(fromRoot), files: files.map(fromRoot) };
}

/** As git decides it, roughly: a folder with a HEAD. Anything else in its place is protected as a whole. */
function isRepository(path: string): boolean {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isDirectory()) return false;
  try {
    return readFileSync(join(path, "HEAD")).length > 0;
  } catch {
    return false;
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function relativeTo(root: string, path: string): string | undefined {
  return path.startsWith(`${root}/`) ? path.slice(root.length + 1) : undefined;
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return resolve(path);
  }
}

/** The real path of the nearest folder above that is there, with the rest as it was named: it need not exist. */
function realParent(path: string): string {
  const names: string[] = [];
  for (let folder = resolve(path); folder !== "/"; folder = resolve(folder, "..")) {
    names.unshift(folder.slice(folder.lastIndexOf("/") + 1));
    const above = resolve(folder, "..");
    if (isFolder(above)) return join(realPath(above), ...names);
  }
  return resolve(path);
}
