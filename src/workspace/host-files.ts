import { obeyedPaths } from "../obeyed.ts";
import { openLocalWorkspace } from "./local.ts";
import type { Workspace } from "./workspace.ts";

/**
 * The user's own files that tools may touch. More names are refused by the tools, in folders of any depth; here it is
 * what a link could lead to. Whether a file is to be run is the user's to decide, so none is left executable.
 */
export function openHostFiles(dir: string, environments: string[]): Workspace {
  const paths = obeyedPaths({ hasRepository: false, isHome: true, has: () => true });
  const protect = () => ({ folders: environments, roots: [{ root: dir, paths }] });
  return openLocalWorkspace(dir, { protect, keepExecutable: false });
}
