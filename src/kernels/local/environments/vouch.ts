import { existsSync, lstatSync, mkdirSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { CodeReach, wayIfAny } from "../../../reach/code-reach.ts";
import { type Identity, identity, identityOf, type Way } from "../../../reach/way.ts";
import { baseOf, environmentAt } from "./discover/candidate.ts";
import { expanded, foldersIn, isWithin, realPath } from "./discover/folders.ts";
import { envRootOf, isCalled, isPath, namedEnvironments, placesOf } from "./discover/named.ts";
import type { Vouched } from "./environment.ts";
import { knownSince } from "./workspace-record.ts";

/** The operator's options about environments and about the folders that code may write to. */
export interface VouchOptions {
  dataDir: string;
  sessionsDir?: string | undefined;
  envRoot: string;
  /** --env. */
  defaultEnv?: string | undefined;
  workspace?: string | undefined;
  allowWrite?: string[] | undefined;
  /** Where export_file writes, if enabled. */
  filesDir?: string | undefined;
  /** The server's environment variables. */
  env: NodeJS.ProcessEnv;
  workingDir?: string | undefined;
}

/** Conventional names of a project's environment. */
const projectNames = [".venv", "venv"];

export function vouch(options: VouchOptions): Vouched {
  const { dataDir, workspace, allowWrite = [], filesDir, env } = options;
  const places = placesOf(options);
  const { workingDir } = places;
  const sessions = options.sessionsDir ?? join(dataDir, "sessions");
  const visible = [...(workspace ? [workspace] : []), ...allowWrite].map((folder) => resolve(workingDir, folder));
  const writable = [sessions, ...visible, ...(filesDir ? [filesDir] : [])].map((folder) => resolve(workingDir, folder));
  const managed = join(dataDir, "envs");
  const envRoot = envRootOf(options);

  // Code could create a missing folder, which would be taken for the operator's at the next start.
  const bare = new CodeReach({ writable, kept: [] });
  mkdirSync(managed, { recursive: true, mode: 0o700 });
  const named = options.defaultEnv;
  const namedPath = named !== undefined && isPath(named) ? expanded(named, places) : undefined;
  for (const folder of [envRoot, namedPath]) if (folder) makeBeforeCodeDoes(folder, bare);

  if (workspace) mkdirSync(resolve(workingDir, workspace), { recursive: true });

  const chosen = [
    namedPath ? environmentAt(namedPath, namedPath).path : namedFolder(named, options),
    ...[env.VIRTUAL_ENV, env.CONDA_PREFIX].map((folder) => folder && resolve(workingDir, folder)),
  ].filter((path): path is string => path !== undefined && path !== "" && existsSync(path));
  const found = workspace ? inProject(resolve(workingDir, workspace)) : [];
  const own = workspace ? knownSince(join(dataDir, "state"), resolve(workingDir, workspace), found) : [];
  const linked = foldersIn(envRoot).map(realPath);

  const folders = [...chosen.map(installation), ...own, ...linked];
  // An environment runs its base installation.
  const bases = [...folders, ...foldersIn(managed)].flatMap(baseOf).filter((base) => isReached(base, bare));
  const kept = [envRoot, ...folders, ...found, ...bases].filter((path) => existsSync(path));
  const protectedPaths = [...new Set(kept.map(realPath))].filter((path) => !isWithin(path, realPath(dataDir)));
  return {
    reach: new CodeReach({ writable, kept: [...protectedPaths, managed] }),
    protectedPaths,
    folders,
    single: identities([...chosen, ...own, ...linked]),
    roots: identities([managed, envRoot]),
    visible,
    hidden: [dataDir, sessions],
  };
}

/** Whether a path leads to a vouched environment that has not been replaced since. */
export function isVouchedFor({ steps, exists }: Way, { single, roots }: Vouched): boolean {
  if (!exists) return false;
  const last = steps.at(-1);
  if (last && single.has(identity(last.stats))) return true;
  // Only the folders on the way that really contain the end.
  return steps.some(
    ({ path, stats, isLink }) => !isLink && last && isWithin(last.path, path) && roots.has(identity(stats)),
  );
}

function isReached(path: string, reach: CodeReach): boolean {
  const way = wayIfAny(path);
  return way !== undefined && reach.throughWay(way) !== undefined;
}

/** Creates a missing folder if code could create it instead. */
function makeBeforeCodeDoes(folder: string, reach: CodeReach): void {
  const way = wayIfAny(folder);
  if (way && !way.exists && reach.throughWay(way)) mkdirSync(folder, { recursive: true, mode: 0o700 });
}

/** The folder of an environment that --env gives by name. */
function namedFolder(name: string | undefined, options: VouchOptions): string | undefined {
  const found = name === undefined ? undefined : namedEnvironments(options).find((each) => isCalled(each, name));
  return found?.kind === "kernelspec" ? found.python && dirname(dirname(found.python)) : found?.path;
}

/** The folder of the installation that a lone interpreter belongs to. */
function installation(path: string): string {
  if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory()) return path;
  return basename(dirname(path)) === "bin" ? dirname(dirname(path)) : path;
}

function inProject(workspace: string): string[] {
  const pixi = join(workspace, ".pixi");
  const places = [...projectNames.map((name) => join(workspace, name)), ...foldersIn(join(pixi, "envs"))];
  // Code may have created a symlink, so links are not accepted.
  return places.filter((place) => wayIfAny(place)?.steps.at(-1)?.stats.isDirectory());
}

function identities(paths: string[]): Set<Identity> {
  return new Set(paths.map(identityOf).filter((found) => found !== undefined));
}
