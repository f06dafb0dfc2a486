import { existsSync } from "node:fs";
import { basename, delimiter, dirname, isAbsolute, join } from "node:path";
import { findProgram, helperEnv, isProgram, isSafe } from "../../../programs.ts";
import { type Candidate, environmentIn } from "./candidate.ts";
import { runCommand } from "./command.ts";
import { foldersIn, homeOf, realPath, smallText } from "./folders.ts";

/** conda is a Python program with much to import; a broken one must not hold up a session for long. */
const LIST_TIMEOUT_MS = 10_000;

/** Where the usual installers put it. */
const usualRoots = ["miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".local/share/mamba"];

/** The environments of conda, mamba and micromamba that the disk tells of, without starting any of them. */
export function condaEnvironments(env: NodeJS.ProcessEnv): Candidate[] {
  const home = homeOf(env);
  const folders = [env.CONDA_ENVS_PATH, env.CONDA_ENVS_DIRS].flatMap((list) => list?.split(delimiter) ?? []);
  const toldBy = join(home, ".conda/environments.txt");
  const found = named([
    ...condaRoots(env).flatMap((root) => [root, ...foldersIn(join(root, "envs"))]),
    ...[join(home, ".conda/envs"), ...folders].flatMap(foldersIn),
  ]);
  const known = new Set(found.map(({ path }) => realPath(path)));
  const told = named(smallText(toldBy).split(/\r?\n/)).filter(({ path }) => !known.has(realPath(path)));
  return [...found, ...told.map((candidate) => ({ ...candidate, toldBy }))];
}

/** Where conda and its relatives are installed. */
export function condaRoots(env: NodeJS.ProcessEnv): string[] {
  const home = homeOf(env);
  return [
    env.CONDA_EXE && dirname(dirname(env.CONDA_EXE)),
    env.MAMBA_ROOT_PREFIX,
    env.CONDA_PREFIX,
    ...usualRoots.map((name) => join(home, name)),
    "/opt/conda",
    "/opt/miniconda3",
    "/opt/miniforge3",
  ].filter((root): root is string => root !== undefined && root !== "");
}

/** Those that conda itself tells of: it alone knows all of its settings. Takes a second. */
export async function listedByConda(env: NodeJS.ProcessEnv, signal?: AbortSignal): Promise<Candidate[]> {
  const conda = condaCommand(env);
  if (!conda) return [];
  const { ok, stdout } = await runCommand(conda, ["env", "list", "--json"], {
    env: helperEnv(env),
    timeoutMs: LIST_TIMEOUT_MS,
    signal,
  });
  if (!ok) return [];
  try {
    const { envs } = JSON.parse(stdout) as { envs?: unknown };
    return named(Array.isArray(envs) ? envs.map(String) : []);
  } catch {
    return [];
  }
}

/** The one of the family that is here, the quickest first. */
export function condaCommand(env: NodeJS.ProcessEnv): string | undefined {
  const commands = ["mamba", "conda", "micromamba"].map((name) => findProgram(name, env));
  const named = [env.CONDA_EXE, env.MAMBA_EXE].filter((path) => path !== undefined && isAbsolute(path));
  return commands.find(Boolean) ?? named.find((path) => path && isProgram(path) && isSafe(path));
}

function named(prefixes: string[]): Candidate[] {
  const seen = new Set<string>();
  return prefixes
    .map((prefix) => prefix.trim())
    .filter(
      (prefix) => isAbsolute(prefix) && existsSync(join(prefix, "conda-meta")) && !/[/\\]\.pixi[/\\]/.test(prefix),
    )
    .filter((prefix) => !seen.has(realPath(prefix)) && seen.add(realPath(prefix)))
    .map((prefix) => environmentIn(prefix, nameOf(prefix)));
}

/** An installation's own environment is `base`; it is the one that has others, or the packages they are made of. */
function nameOf(prefix: string): string {
  const isRoot =
    basename(dirname(prefix)) !== "envs" && ["condabin", "pkgs", "envs"].some((it) => existsSync(join(prefix, it)));
  return isRoot ? "base" : basename(prefix);
}
