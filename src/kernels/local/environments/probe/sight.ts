import { existsSync, readlinkSync, statSync } from "node:fs";
import { dirname, join, parse, relative, resolve } from "node:path";
import { systemMounts } from "../../../../isolation/mounts/system-mounts.ts";
import { wayIfAny } from "../../../../reach/code-reach.ts";
import { baseOf, hasStandardLibrary, homeIn } from "../discover/candidate.ts";
import { condaRoots } from "../discover/conda.ts";
import { homeOf, isWithin, realPath } from "../discover/folders.ts";
import type { EnvironmentsConfig, Judgement } from "../environment.ts";
import type { Interpreter } from "./interpreter.ts";

/** The paths that a jail has to show to an environment's interpreter. */
export interface Sight {
  /** Absolute paths, none below another, in addition to the system paths of every jail. */
  paths: string[];
  /** Session folders that contain parts of it: sessions see them anyway, a probe's jail has to mount them. */
  within: string[];
}

/**
 * Based on the operator's options and on the usual places of Python installations, never on what an interpreter reports
 * about itself. Of a folder that a caller named, only the parts that make up an environment are shown.
 */
export async function sightOf(
  python: string,
  { isVouched }: Judgement,
  config: EnvironmentsConfig,
): Promise<Sight | { obstacle: string }> {
  const { vouched, env } = config;
  const prefix = dirname(dirname(python));
  const system = systemMounts({ network: false, hasNamespaces: true }).readOnly.map(({ at }) => at);
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
  if (isTooMuch(prefix)) return { obstacle: `${prefix} contains your home folder, which code must not see` };
  if (isShown(prefix) || isSeen(prefix)) {
    // Visible already. Do not mount it: code could replace the folder.
  } else if (isVouched) paths.push(prefix);
  else if (isOurs(prefix)) return { obstacle: `${prefix} is in Cellwright's data folder, which code must not see` };
  else if (!isEnvironment(prefix)) return { obstacle: `${prefix} is not a Python environment` };
  else paths.push(...partsOf(prefix));

  const roots = isVouched ? undefined : pythonRoots(config);
  for (const { folder, isBase } of neededFolders(python, prefix)) {
    const real = realPath(folder);
    if (isShown(folder) || isWithin(real, realPath(prefix)) || isSeen(folder)) continue;
    const allowed = roots && (isBase ? [...roots.bases, ...roots.pythons] : roots.pythons);
    const isMeant = allowed
      ? allowed.some((root) => isWithin(real, realPath(root))) && vouched.reach.through(folder) === undefined
      : !isOurs(folder) || isWithin(real, realPath(join(config.dataDir, "envs")));
    if (isMeant && !isTooMuch(folder)) paths.push(folder);
    else if (isBase) return { obstacle: `it is based on the Python in ${folder}, which code must not see` };
  }
  return { paths: outermost(paths.flatMap((path) => [path, realPath(path)])), within: [...seen] };
}

/** Folders outside the environment that are on its import path, such as editable installs. */
export function placesOnPath({ path, places, prefix }: Interpreter, config: EnvironmentsConfig): string[] {
  const home = realPath(homeOf(config.env));
  return [...path, ...places].filter((folder) => {
    const real = realPath(folder);
    const isHidden = config.vouched.hidden.some((each) => isWithin(real, realPath(each)));
    return existsSync(folder) && !isWithin(real, realPath(prefix)) && !isHidden && !isWithin(home, real);
  });
}

/** Removes paths that are below others. */
export function outermost(paths: string[]): string[] {
  const unique = [...new Set(paths.map((path) => resolve(path)))];
  return unique.filter((path) => !unique.some((other) => other !== path && isWithin(path, other)));
}

/** Folders outside the environment that its interpreter needs: those of symlinks, and the base installation. */
function neededFolders(python: string, prefix: string): { folder: string; isBase: boolean }[] {
  const way = wayIfAny(join(realPath(prefix), relative(prefix, python)));
  const links = (way?.steps ?? []).filter(({ isLink }) => isLink);
  // As the links spell them: their targets have to be visible under these names, too.
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

/** The parts of an environment; other files in its folder are not shown to a caller's code. */
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

/** Where Pythons are installed. `pythons`: folders that contain nothing else. */
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
