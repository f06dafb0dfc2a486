import { accessSync, constants, existsSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { EnvironmentKind } from "../environment.ts";
import { smallText } from "./folders.ts";

/** What a name or path resolves to; it may turn out not to be a usable environment. */
export interface Candidate {
  name: string;
  kind: EnvironmentKind;
  /** The environment's folder; the kernelspec's folder; or the path of a lone interpreter. */
  path: string;
  /** The interpreter; absent if not found. */
  python?: string | undefined;
  /** A caller gave this path; it was not found by discovery. */
  byPath?: boolean;
  /** The file that listed it, if it was not found by its location. */
  listedIn?: string;
  /** Why it cannot be used, known without a probe. */
  obstacle?: string | undefined;
}

const isWindows = process.platform === "win32";

/** Relative to an environment's folder, in lookup order. On Windows, conda's interpreter is at the top. */
const interpreterPlaces = isWindows ? ["Scripts/python.exe", "python.exe"] : ["bin/python", "bin/python3"];

/** Where projects keep their environment. */
const projectPlaces = [".venv", "venv", ".pixi/envs/default"];

export function interpreterIn(folder: string): string | undefined {
  return interpreterPlaces.map((place) => join(folder, place)).find(isExecutable);
}

/** The default path of the interpreter, whether or not it exists. */
export function usualInterpreter(folder: string): string {
  return join(folder, interpreterPlaces[0] ?? "");
}

/** The environment in a folder, whichever tool created it. */
export function environmentIn(folder: string, name: string): Candidate {
  return { name, kind: kindOf(folder), path: folder, python: interpreterIn(folder) };
}

/** Resolves the path of an environment, an interpreter, or a project that contains an environment. */
export function environmentAt(path: string, name: string): Candidate {
  if (isFile(path)) return interpreterAt(path, name);
  const own = environmentIn(path, name);
  if (own.python) return own;
  const inProject = projectPlaces.map((place) => environmentIn(join(path, place), name)).find(({ python }) => python);
  return inProject ?? own;
}

/** An interpreter by itself, such as the first on the PATH. */
export function loneInterpreter(python: string): Candidate {
  return { name: python, kind: "system", path: python, python };
}

function interpreterAt(path: string, name: string): Candidate {
  // A probe runs the file, so a caller can name nothing but interpreters.
  if (!isInterpreterName(basename(path))) {
    return { name, kind: "system", path, obstacle: `\`${path}\` is not a Python interpreter.` };
  }
  const folder = isWindows && kindOf(dirname(path)) === "conda" ? dirname(path) : dirname(dirname(path));
  const kind = kindOf(folder);
  return { name, kind, path: kind === "system" ? path : folder, python: isExecutable(path) ? path : undefined };
}

export function isInterpreterName(name: string): boolean {
  return /^(python|pypy)[\d.]*t?(\.exe)?$/i.test(name);
}

function kindOf(folder: string): EnvironmentKind {
  if (existsSync(join(folder, "conda-meta"))) return isPixi(folder) ? "pixi" : "conda";
  if (existsSync(join(folder, "pyvenv.cfg"))) return "venv";
  return existsSync(folder) && interpreterIn(folder) ? "system" : "venv";
}

function isPixi(folder: string): boolean {
  return /[/\\]\.pixi[/\\]envs[/\\][^/\\]+$/.test(folder);
}

/** Whether the folder is a full Python installation, not only a virtual environment. */
export function hasStandardLibrary(prefix: string): boolean {
  return ["lib", "lib64"].some((lib) => {
    const folder = join(prefix, lib);
    try {
      const names = readdirSync(folder).filter((name) => /^(python|pypy)\d/.test(name));
      return names.some((name) => existsSync(join(folder, name, "os.py")));
    } catch {
      return false;
    }
  });
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return isFile(path);
  } catch {
    return false;
  }
}

/** The base installation of an environment, and the folder itself if it is a full installation. */
export function baseOf(folder: string): string[] {
  const home = homeIn(folder);
  return [folder, ...(home ? [dirname(home)] : [])].filter(hasStandardLibrary);
}

/** The folder of the base interpreter, from pyvenv.cfg. */
export function homeIn(prefix: string): string | undefined {
  return /^home\s*=\s*(\/.*?)\s*$/m.exec(smallText(join(prefix, "pyvenv.cfg")))?.[1];
}
