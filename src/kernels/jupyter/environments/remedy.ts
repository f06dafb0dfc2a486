import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import { type Candidate, environmentIn, usualInterpreter } from "./candidate.ts";
import { condaCommand } from "./conda.ts";
import { MANAGED } from "./environment.ts";
import { homeOf, onPath, textOf } from "./folders.ts";
import type { Interpreter } from "./interpreter.ts";
import { pixiProject } from "./pixi.ts";

/** A command for people to copy. With `argv` it can also be run for them. */
export interface Remedy {
  text: string;
  argv?: [string, ...string[]];
  cwd?: string;
}

/** What puts ipykernel into an environment: that differs with what made it. */
export function installIpykernel(candidate: Candidate, interpreter: Interpreter, env: NodeJS.ProcessEnv): Remedy {
  const { python, prefix, basePrefix } = interpreter;
  if (candidate.kind === "managed") return { text: createCommand(candidate.name) };
  const owner = environmentIn(prefix, candidate.name);
  if (candidate.kind === "pixi" || owner.kind === "pixi")
    return pixiAdd({ ...owner, path: prefix }, ["ipykernel"], env);
  if (owner.kind === "conda") return condaInstall(prefix, ["ipykernel"], env);
  const isVenv = prefix !== basePrefix;
  if (!isVenv && interpreter.isExternallyManaged) return { text: forSystem(interpreter, candidate.name, homeOf(env)) };
  if (interpreter.hasPip) return command([python, "-m", "pip", "install", "ipykernel"]);
  const uv = onPath("uv", env);
  if (uv || /^uv\s*=/m.test(textOf(join(prefix, "pyvenv.cfg"))))
    return command([uv ?? "uv", "pip", "install", "--python", python, "ipykernel"], "uv");
  const quoted = shellWord(python);
  return { text: `${quoted} -m ensurepip && ${quoted} -m pip install ipykernel` };
}

/** What gives an environment without an interpreter one. */
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

/** `clear`: what is there goes first. */
export function makeVenv(folder: string, { clear = false } = {}): string {
  const python = shellWord(usualInterpreter(folder));
  return `python3 -m venv ${clear ? "--clear " : ""}${shellWord(folder)} && ${python} -m pip install ipykernel`;
}

function condaInstall(prefix: string, packages: string[], env: NodeJS.ProcessEnv): Remedy {
  const conda = condaCommand(env) ?? "conda";
  const args = ["-p", prefix, "-c", "conda-forge", ...packages];
  const { text } = command([conda, "install", ...args], basename(conda).replace(/\.(exe|bat)$/, ""));
  return { text, argv: [conda, "install", "--yes", ...args] };
}

function pixiAdd(candidate: Candidate, packages: string[], env: NodeJS.ProcessEnv): Remedy {
  const environment = basename(candidate.path);
  const project = pixiProject(candidate.path, env);
  if (!project) return command(["pixi", "global", "add", "--environment", environment, ...packages]);
  const feature = environment === "default" ? [] : ["--feature", environment];
  const argv: [string, ...string[]] = ["pixi", "add", ...feature, ...packages];
  return { text: `cd ${shellWord(project)} && ${command(argv).text}`, argv, cwd: project };
}

/** pip refuses there, for good reasons; the system has its own way, or an environment beside it does. */
function forSystem({ prefix, python }: Interpreter, name: string, home: string): string {
  if (prefix === "/usr" && existsSync("/etc/debian_version")) return "sudo apt install python3-ipykernel";
  const folder = join(home, "envs", /^[\w.-]+$/.test(name) ? name : "analysis");
  return makeVenv(folder).replace(/^python3/, shellWord(python));
}

function command(argv: [string, ...string[]], shownAs = argv[0]): Remedy {
  return { text: [shownAs, ...argv.slice(1)].map(shellWord).join(" "), argv };
}

function shellWord(word: string): string {
  return /^[\w@%+=:,./\\-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
