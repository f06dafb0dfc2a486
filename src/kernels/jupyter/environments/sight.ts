import { existsSync, readlinkSync, statSync } from "node:fs";
import { dirname, join, parse, relative, resolve } from "node:path";
import { systemMounts } from "../../../jail/system-mounts.ts";
import { wayIfAny } from "../../../reach/code-reach.ts";
import { baseOf, hasStandardLibrary, homeIn } from "./candidate.ts";
import { condaRoots } from "./conda.ts";
import type { EnvironmentsConfig, Judgement } from "./environment.ts";
import { homeOf, isWithin, realPath } from "./folders.ts";
import type { Interpreter } from "./interpreter.ts";

/** What has to be shown to a process with an environment's interpreter. */
export interface Sight {
  /** Absolute paths, none below another, beside what every jail shows of the system. */
  paths: string[];
  /** Folders of the session's that parts of it lie in: a session sees them anyway, a probe has to be shown them. */
  within: string[];
}

/**
 * Made from what the operator named or vouched for, and from where Pythons are usually installed: never from what an
 * interpreter says of itself, and of a folder that a caller named only what makes it an environment.
 */
export async function sightOf(
  python: string,
  { isVouched }: Judgement,
  config: EnvironmentsConfig,
): Promise<Sight | { obstacle: string }> {
  const { vouched, env } = config;
  const prefix = dirname(dirname(python));
  const system = systemMounts({ network: false, isApart: true }).readOnly.map(({ at }) => at);
  const isShown = (path: string) => {
    const real = realPath(path);
    return system.some((folder) => isWithin(real, folder));
  };
  const isTooMuch = (path: string) => isWithin(realPath(homeOf(env)), realPath(path)) || parse(path).root === path;
  const isOurs = (path: string) => vouched.hidden.some((folder) => isWithin(realPath(path), realPath(folder)));
  const seen = new Set<string>();
  const isSeen = (path: string) => {
    if (isVouched) return false;
    const folder = vouched.visible.find((each) => isWithin(realPath(path), realPath(each)));
    if (folder) seen.add(folder);
    return folder !== undefined;
  };

  const paths: string[] = [];
  if (isTooMuch(prefix)) return { obstacle: `${prefix} has your home folder in it, which code is not shown` };
  if (isShown(prefix) || isSeen(prefix)) {
    // Nothing has to be mounted, least of all from a folder in which code can put something else in its place.
  } else if (isVouched) paths.push(prefix);
  else if (isOurs(prefix)) return { obstacle: `${prefix} lies in Cellwright's own folder, which code is not shown` };
  else if (!isEnvironment(prefix)) return { obstacle: `${prefix} is not a Python environment` };
  else paths.push(...partsOf(prefix));

  const roots = isVouched ? undefined : pythonRoots(config);
  for (const { folder, isBase } of besides(python, prefix)) {
    const real = realPath(folder);
    if (isShown(folder) || isWithin(real, realPath(prefix)) || isSeen(folder)) continue;
    const allowed = roots && (isBase ? [...roots.bases, ...roots.pythons] : roots.pythons);
    const isMeant = allowed
      ? allowed.some((root) => isWithin(real, realPath(root))) && vouched.reach.through(folder) === undefined
      : !isOurs(folder) || isWithin(real, realPath(join(config.dataDir, "envs")));
    if (isMeant && !isTooMuch(folder)) paths.push(folder);
    else if (isBase) return { obstacle: `it is made of the Python in ${folder}, which is not one that code is shown` };
  }
  return { paths: outermost(paths.flatMap((path) => [path, realPath(path)])), within: [...seen] };
}

/** Folders elsewhere that an environment has on its path, such as projects that are installed in place. */
export function placesOnPath({ path, places, prefix }: Interpreter, config: EnvironmentsConfig): string[] {
  const home = realPath(homeOf(config.env));
  return [...path, ...places].filter((folder) => {
    const real = realPath(folder);
    const isHidden = config.vouched.hidden.some((each) => isWithin(real, realPath(each)));
    return existsSync(folder) && !isWithin(real, realPath(prefix)) && !isHidden && !isWithin(home, real);
  });
}

/** None below another. */
export function outermost(paths: string[]): string[] {
  const unique = [...new Set(paths.map((path) => resolve(path)))];
  return unique.filter((path) => !unique.some((other) => other !== path && isWithin(path, other)));
}

/** Folders that an interpreter is found by: those of the links beyond its environment, and its base installation's. */
function besides(python: string, prefix: string): { folder: string; isBase: boolean }[] {
  const way = wayIfAny(join(realPath(prefix), relative(prefix, python)));
  const links = (way?.steps ?? []).filter(({ isLink }) => isLink);
  // As links spell them: what they name has to be seen by that name, too.
  const targets = links.filter(({ path }) => !isFolder(path)).map((it) => resolve(it.folder, readlinkSync(it.path)));
  const linked = links.flatMap(({ path, folder }) => (isFolder(path) ? path : folder));
  const home = homeIn(prefix);
  const interpreters = [...(home ? [join(home, "python")] : []), ...(way ? [way.real] : []), ...targets];
  const bases = interpreters.map((path) => dirname(dirname(path))).flatMap((folder) => [folder, realPath(folder)]);
  return [
    ...bases
      .filter((folder) => folder !== prefix && hasStandardLibrary(folder))
      .map((folder) => ({ folder, isBase: true })),
    ...[...linked, ...targets.map((target) => dirname(target))].map((folder) => ({ folder, isBase: false })),
  ].filter(({ folder }) => existsSync(folder) && wayIfAny(folder) !== undefined);
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function isEnvironment(prefix: string): boolean {
  const marks = ["pyvenv.cfg", "conda-meta"];
  return marks.some((mark) => existsSync(join(prefix, mark))) || hasStandardLibrary(prefix);
}

/** What an environment consists of; what else lies beside it is not for code that a caller sent. */
function partsOf(prefix: string): string[] {
  const names = [
    "pyvenv.cfg",
    "conda-meta",
    "bin",
    "include",
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "share",
    "etc",
    "ssl",
  ];
  return names.map((name) => join(prefix, name)).filter((path) => existsSync(path));
}

/** Where this user's Pythons are installed, by whatever means. `pythons`: folders with nothing else in them. */
function pythonRoots({ env, vouched, dataDir }: EnvironmentsConfig): { bases: string[]; pythons: string[] } {
  const home = homeOf(env);
  const data = env.XDG_DATA_HOME || join(home, ".local/share");
  return {
    bases: ["/opt", "/home/linuxbrew/.linuxbrew", ...condaRoots(env), ...vouched.folders.flatMap(baseOf)],
    pythons: [
      join(env.PYENV_ROOT || join(home, ".pyenv"), "versions"),
      env.UV_PYTHON_INSTALL_DIR || join(data, "uv/python"),
      join(data, "mise/installs/python"),
      join(home, ".asdf/installs/python"),
      join(home, ".local/bin"),
      join(dataDir, "envs"),
    ],
  };
}
