import { obeyedPaths } from "../reach/obeyed.ts";
import { openLocalWorkspace } from "./local/workspace.ts";
import type { Workspace } from "./workspace.ts";

/**
 * The user's own files that tools may access. The tools refuse more names, in folders of any depth; this check covers
 * paths that a symlink could lead to. Only the user decides what may be executed, so no file is left executable.
 */
export function openHostFiles(dir: string, environments: string[]): Workspace {
  const paths = obeyedPaths({ hasRepository: false, isHome: true, has: () => true });
  const protect = () => ({ folders: environments, roots: [{ root: dir, paths }] });
  return openLocalWorkspace(dir, { protect, keepExecutable: false });
}
