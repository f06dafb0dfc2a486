import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import { type CodeReach, wayIfAny } from "../reach/code-reach.ts";

/** What code can write, for every app in this process. */
const reaches = new Set<CodeReach>();

/** From now on no program is started from folders that code can write. Called before anything is started. */
export function keepProgramsFrom(reach: CodeReach): void {
  reaches.add(reach);
}

/**
 * A program's absolute path, from the folders of PATH that are absolute and that code cannot write; symlinks are
 * resolved and checked, too. Everything that Cellwright starts by name is found here, so that `node_modules/.bin/conda`
 * of a workspace is never used.
 */
export function findProgram(name: string, env: NodeJS.ProcessEnv = process.env): string | undefined {
  const names = process.platform === "win32" ? [`${name}.exe`, `${name}.bat`] : [name];
  return candidates(names, env).find((path) => isProgram(path) && isSafe(path));
}

/** All matches, in PATH order. */
export function findPrograms(names: string[], env: NodeJS.ProcessEnv = process.env): string[] {
  return [...new Set(candidates(names, env))].filter((path) => isProgram(path) && isSafe(path));
}

/** PATH for child processes: without folders that code can write. */
export function programPath(env: NodeJS.ProcessEnv = process.env): string {
  return foldersOf(env.PATH).filter(isSafe).join(delimiter);
}

/** Whether code cannot influence what this path leads to. */
export function isSafe(path: string): boolean {
  const way = wayIfAny(path);
  return way !== undefined && [...reaches].every((reach) => reach.throughWay(way) === undefined);
}

/**
 * Environment for helpers such as conda, uv and pip: their configuration and proxies. Excludes Cellwright's tokens and
 * keys.
 */
export function helperEnv(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(([name]) => helpful.test(name));
  return { ...Object.fromEntries(kept), PATH: programPath(env) };
}

const helpful = new RegExp(
  `^(${[
    ...["HOME", "USER", "LOGNAME", "LANG", "LC_[A-Z]+", "TZ", "TMPDIR", "TMP", "TEMP", "XDG_[A-Z_]+", "NO_COLOR"],
    ...["(CONDA|MAMBA|PIXI|RATTLER|UV|PIP|PYENV)_[A-Z0-9_]+", "(https?|all|no|HTTPS?|ALL|NO)_(proxy|PROXY)"],
    ...["SSL_CERT_(FILE|DIR)", "SSL_CLIENT_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "LD_LIBRARY_PATH"],
    ...["SYSTEMROOT", "COMSPEC", "PATHEXT", "WINDIR", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "USERPROFILE"],
  ].join("|")})$`,
  "i",
);

function candidates(names: string[], env: NodeJS.ProcessEnv): string[] {
  return foldersOf(env.PATH).flatMap((folder) => names.map((name) => join(folder, name)));
}

function foldersOf(path = ""): string[] {
  return path.split(delimiter).filter((folder) => isAbsolute(folder));
}

export function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
