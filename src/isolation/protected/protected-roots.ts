import { lstatSync, readFileSync, realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, relative, resolve } from "node:path";
import { CellwrightError } from "../../errors.ts";
import { liftablePaths, obeyedPaths } from "../../reach/obeyed.ts";
import { linkedRepositories } from "./git-links.ts";
import { pathsInGitConfig } from "./git-settings.ts";

/** A folder that code may write to, and the protected paths in it. */
export interface ProtectedRoot {
  /** Its real path. */
  root: string;
  /** Relative paths that host programs obey, existing or not. */
  paths: string[];
  /** Those whose placeholder must be a file: with a folder in its place, git would fail. */
  files: string[];
}

/** The meaning of --allow-write: writable paths, and protected names that are exempted. */
export interface WriteRules {
  /** Without those that only exempt a protected name. */
  allowWrite: string[];
  /** Absolute. */
  lifted: string[];
}

/** A protected name refers to the workspace, not to the working directory of this program. */
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

/** The protected paths below each of these folders; files are skipped. */
export function protectedRoots(folders: string[], lifted: string[]): ProtectedRoot[] {
  const roots = [...new Set(folders.map(realPath))].filter((path) => isFolder(path));
  return roots.map((root) => {
    const open = lifted.map((path) => relativeTo(root, realParent(path))).filter((path) => path !== undefined);
    const has = (name: string) => lstatSync(join(root, name), { throwIfNoEntry: false }) !== undefined;
    const isHome = root === realPath(homedir());
    const obeyed = obeyedPaths({ hasRepository: isRepository(join(root, ".git")), isHome, has });
    const linked = linkedPaths(root);
    // Exempting `.git` also exempts the paths that its configuration names.
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
      `Cannot read the git index of \`${root}\`: ${(cause as Error).message}. It is needed to protect submodules from code.`,
      { hint: "Check `git status` there, or use a workspace without a repository.", cause },
    );
  }
}

function namedPaths(root: string): { folders: string[]; files: string[] } {
  const { folders, files } = pathsInGitConfig(root);
  if (folders.includes(root)) {
    throw new CellwrightError(
      "kernel_start_failed",
      `Git's core.hooksPath is \`${root}\` itself, so git would run files that code writes there.`,
      { hint: "Set `core.hooksPath` to a separate folder, or start Cellwright with --allow-write=.git." },
    );
  }
  const fromRoot = (path: string) => relative(root, path);
  return { folders: folders.map(fromRoot), files: files.map(fromRoot) };
}

/** Roughly git's own test: a folder with a HEAD. Anything else is protected as a whole. */
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

/** The real path of the nearest existing folder above, with the rest unchanged: the path need not exist. */
function realParent(path: string): string {
  const names: string[] = [];
  for (let folder = resolve(path); folder !== "/"; folder = resolve(folder, "..")) {
    names.unshift(folder.slice(folder.lastIndexOf("/") + 1));
    const above = resolve(folder, "..");
    if (isFolder(above)) return join(realPath(above), ...names);
  }
  return resolve(path);
}
