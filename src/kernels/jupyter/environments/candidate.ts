import { accessSync, constants, existsSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { EnvironmentKind } from "./environment.ts";
import { smallText } from "./folders.ts";

/** A place that an environment's name leads to, before anybody has asked whether there is a Python in it. */
export interface Candidate {
  name: string;
  kind: EnvironmentKind;
  /** Its folder; of a kernelspec, the folder of the specification; of a lone interpreter, itself. */
  path: string;
  /** Absent: there is none. */
  python?: string | undefined;
  /** A caller named this path: it is not one that was found where environments are kept. */
  byPath?: boolean;
  /** The file that told of it, if that could be somebody else's. */
  toldBy?: string;
  /** Why it cannot be used, known without asking. */
  obstacle?: string | undefined;
}

const isWindows = process.platform === "win32";

/** In the order in which they are looked for in an environment's folder; conda's lies at the top on Windows. */
const interpreterPlaces = isWindows ? ["Scripts/python.exe", "python.exe"] : ["bin/python", "bin/python3"];

/** Where a project keeps its environment. */
const projectPlaces = [".venv", "venv", ".pixi/envs/default"];

/** The interpreter in an environment's folder. */
export function interpreterIn(folder: string): string | undefined {
  return interpreterPlaces.map((place) => join(folder, place)).find(isExecutable);
}

/** Where it would be. */
export function usualInterpreter(folder: string): string {
  return join(folder, interpreterPlaces[0] ?? "");
}

/** The environment in a folder, whatever made it. */
export function environmentIn(folder: string, name: string): Candidate {
  return { name, kind: kindOf(folder), path: folder, python: interpreterIn(folder) };
}

/** What a path leads to: an environment, an interpreter, or a project that has an environment in it. */
export function environmentAt(path: string, name: string): Candidate {
  if (isFile(path)) return interpreterAt(path, name);
  const own = environmentIn(path, name);
  if (own.python) return own;
  const inProject = projectPlaces.map((place) => environmentIn(join(path, place), name)).find(({ python }) => python);
  return inProject ?? own;
}

function interpreterAt(path: string, name: string): Candidate {
  // Asking means running: whatever else a caller may name is not run.
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

/** Whether a Python is installed in this folder, and not only a virtual environment. */
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

/** The installation that an environment is made of; its own folder where it is one. */
export function baseOf(folder: string): string[] {
  const home = homeIn(folder);
  return [folder, ...(home ? [dirname(home)] : [])].filter(hasStandardLibrary);
}

/** What a virtual environment says of where its base Python lies. */
export function homeIn(prefix: string): string | undefined {
  return /^home\s*=\s*(\/.*?)\s*$/m.exec(smallText(join(prefix, "pyvenv.cfg")))?.[1];
}
