import { existsSync } from "node:fs";
import { basename, delimiter, dirname, isAbsolute, join } from "node:path";
import { findProgram, helperEnv, isProgram, isSafe } from "../../../../process/programs.ts";
import { runCommand } from "../create/command.ts";
import { type Candidate, environmentIn } from "./candidate.ts";
import { foldersIn, homeOf, realPath, smallText } from "./folders.ts";

/** conda is slow to import; a broken one must not block a session for long. */
const LIST_TIMEOUT_MS = 10_000;

/** Default folders of the common installers. */
const usualRoots = ["miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".local/share/mamba"];

/** The environments of conda, mamba and micromamba that are found on disk, without starting a process. */
export function condaEnvironments(env: NodeJS.ProcessEnv): Candidate[] {
  const home = homeOf(env);
  const folders = [env.CONDA_ENVS_PATH, env.CONDA_ENVS_DIRS].flatMap((list) => list?.split(delimiter) ?? []);
  const listedIn = join(home, ".conda/environments.txt");
  const found = named([
    ...condaRoots(env).flatMap((root) => [root, ...foldersIn(join(root, "envs"))]),
    ...[join(home, ".conda/envs"), ...folders].flatMap(foldersIn),
  ]);
  const known = new Set(found.map(({ path }) => realPath(path)));
  const listed = named(smallText(listedIn).split(/\r?\n/)).filter(({ path }) => !known.has(realPath(path)));
  return [...found, ...listed.map((candidate) => ({ ...candidate, listedIn }))];
}

/** Where conda, mamba and micromamba are installed. */
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

/** The environments that conda lists; only conda knows all of its settings. Takes a second. */
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

/** The first of mamba, conda and micromamba that is installed. */
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

/** An installation's root is `base`; it contains the other environments or the package cache. */
function nameOf(prefix: string): string {
  const isRoot =
    basename(dirname(prefix)) !== "envs" && ["condabin", "pkgs", "envs"].some((it) => existsSync(join(prefix, it)));
  return isRoot ? "base" : basename(prefix);
}
