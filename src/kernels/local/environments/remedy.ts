import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import { findProgram } from "../../../process/programs.ts";
import type { CommandLine } from "./create/command.ts";
import { type Candidate, environmentIn, usualInterpreter } from "./discover/candidate.ts";
import { condaCommand } from "./discover/conda.ts";
import { homeOf, smallText } from "./discover/folders.ts";
import { pixiProject } from "./discover/pixi.ts";
import { MANAGED } from "./environment.ts";
import type { Interpreter } from "./probe/interpreter.ts";

/** A command for the user to copy. With `argv`, Cellwright can also run it. */
export interface Remedy {
  text: string;
  argv?: CommandLine;
  cwd?: string;
}

/** The command that installs ipykernel; it depends on the tool that created the environment. */
export function installIpykernel(candidate: Candidate, interpreter: Interpreter, env: NodeJS.ProcessEnv): Remedy {
  const { python, prefix, basePrefix } = interpreter;
  if (candidate.kind === "managed") return { text: createCommand(candidate.name) };
  const owner = environmentIn(prefix, candidate.name);
  if (candidate.kind === "pixi" || owner.kind === "pixi")
    return pixiAdd({ ...owner, path: prefix }, ["ipykernel"], env);
  if (owner.kind === "conda") return condaInstall(prefix, ["ipykernel"], env);
  const isVenv = prefix !== basePrefix;
  if (!isVenv && interpreter.isExternallyManaged) return { text: forSystem(interpreter, candidate.name, homeOf(env)) };
  if (interpreter.hasPip) {
    const { text } = command([python, "-m", "pip", "install", "ipykernel"]);
    return { text, argv: [python, "-I", "-m", "pip", "install", "ipykernel"] };
  }
  const uv = findProgram("uv", env);
  if (uv || /^uv\s*=/m.test(smallText(join(prefix, "pyvenv.cfg"))))
    return withProgram(uv, ["uv", "pip", "install", "--python", python, "ipykernel"]);
  const quoted = shellWord(python);
  return { text: `${quoted} -m ensurepip && ${quoted} -m pip install ipykernel` };
}

/** The command that adds an interpreter to an environment without one. */
export function installPython(candidate: Candidate, env: NodeJS.ProcessEnv): string {
  const { kind, name, path } = candidate;
  if (kind === "managed") return createCommand(name);
  if (kind === "conda") return condaInstall(path, ["python", "ipykernel"], env).text;
  if (kind === "pixi") return pixiAdd(candidate, ["python", "ipykernel"], env).text;
  return makeVenv(path);
}

export function createCommand(name: string): string {
  return `cellwright env create${name === MANAGED ? "" : ` ${shellWord(name)}`}`;
}

/** `clear`: remove the folder's contents first. */
export function makeVenv(folder: string, { clear = false } = {}): string {
  const python = shellWord(usualInterpreter(folder));
  return `python3 -m venv ${clear ? "--clear " : ""}${shellWord(folder)} && ${python} -m pip install ipykernel`;
}

function condaInstall(prefix: string, packages: string[], env: NodeJS.ProcessEnv): Remedy {
  const conda = condaCommand(env);
  const args = ["-p", prefix, "-c", "conda-forge", ...packages];
  const { text } = command([basename(conda ?? "conda").replace(/\.(exe|bat)$/, ""), "install", ...args]);
  return { text, ...(conda && { argv: [conda, "install", "--yes", ...args] }) };
}

function pixiAdd(candidate: Candidate, packages: string[], env: NodeJS.ProcessEnv): Remedy {
  const environment = basename(candidate.path);
  const project = pixiProject(candidate.path, env);
  if (!project) return { text: command(["pixi", "global", "add", "--environment", environment, ...packages]).text };
  const feature = environment === "default" ? [] : ["--feature", environment];
  const { text } = command(["pixi", "add", ...feature, ...packages]);
  const pixi = findProgram("pixi", env);
  return {
    text: `cd ${shellWord(project)} && ${text}`,
    ...(pixi && { argv: [pixi, "add", ...feature, ...packages], cwd: project }),
  };
}

/** pip refuses to change a system Python (PEP 668): use the system's package, or a separate venv. */
function forSystem({ prefix, python }: Interpreter, name: string, home: string): string {
  if (prefix === "/usr" && existsSync("/etc/debian_version")) return "sudo apt install python3-ipykernel";
  const folder = join(home, "envs", /^[\w.-]+$/.test(name) ? name : "analysis");
  return makeVenv(folder).replace(/^python3/, shellWord(python));
}

/** Can be run by Cellwright if the program's path is known. */
function withProgram(program: string | undefined, words: CommandLine): Remedy {
  const { text } = command(words);
  return { text, ...(program && { argv: [program, ...words.slice(1)] }) };
}

function command(words: CommandLine): Remedy {
  return { text: words.map(shellWord).join(" ") };
}

function shellWord(word: string): string {
  return /^[\w@%+=:,./\\-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
