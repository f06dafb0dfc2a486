import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { CellwrightError } from "../../../../errors.ts";
import { interpreterIn, usualInterpreter } from "../discover/candidate.ts";
import { realPath, textOf } from "../discover/folders.ts";
import type { Interpreter } from "../probe/interpreter.ts";
import { askOpenly } from "../probe/probe.ts";
import { findBasePython } from "./base-python.ts";
import { type CommandLine, type CommandOptions, runCommand } from "./command.ts";
import { type Installer, pipInstaller, type ReportProgress } from "./installer.ts";
import { withLock } from "./lock.ts";
import { standardPackages } from "./packages.ts";
import { installerEnv } from "./pip-settings.ts";
import { fetchUv, findUv, uvInstaller } from "./uv.ts";

/** For one command: 200 MB over a slow connection. */
const STEP_TIMEOUT_MS = 30 * 60_000;
const compileFile = fileURLToPath(new URL("compile.py", import.meta.url));

/** Written last into an environment that Cellwright creates. Missing: the creation was interrupted. */
export const RECORD = "cellwright.json";

interface Record {
  /** An environment contains its own path and cannot be moved. */
  folder: string;
  packages: string[];
  installer: Installer["name"];
}

export interface SetUpOptions {
  /** The server's variables, including the settings of pip and uv. */
  env: NodeJS.ProcessEnv;
  packageIndex?: string | undefined;
  /** Leaves byte code to the first import of each module. */
  withoutByteCode?: boolean;
  signal?: AbortSignal | undefined;
  progress?: ReportProgress | undefined;
}

interface Creation extends SetUpOptions {
  folder: string;
  cacheDir: string;
  packages: string[];
}

export interface Created {
  folder: string;
  python: string;
  version: string;
  /** Packages installed by this call; empty if nothing was missing. */
  installed: string[];
  installer?: Installer["name"];
}

/** Whether an environment was created completely. Starts no process. */
export function isComplete(folder: string): boolean {
  return readRecord(folder) !== undefined && interpreterIn(folder) !== undefined;
}

/** Creates an environment, or adds missing packages. Throws `env_error` and leaves no half-made environment. */
export async function createEnvironment(options: Creation): Promise<Created> {
  const { folder, packages } = options;
  await mkdir(dirname(folder), { recursive: true, mode: 0o700 });
  return withLock(folder, async () => {
    const present = await answerOf(folder, options.env);
    const record = present && readRecord(folder);
    const lacking = packages.filter((name) => !record?.packages.includes(name));
    if (record && lacking.length === 0) return created(folder, present, []);
    if (record) return extend(options, record, lacking);
    return make(options);
  });
}

async function make(options: Creation): Promise<Created> {
  const { folder, packages, progress, signal } = options;
  progress?.({ fraction: 0, message: "looking for Python" });
  const base = await findBasePython(options.env);
  const env = installerEnv(options.env, options.packageIndex);
  const installer = await findInstaller(base, { ...options, env });
  try {
    await rm(folder, { recursive: true, force: true });
    progress?.({ fraction: 0.05, message: `creating an environment with Python ${base.version}` });
    const { ok, failure } = await run(installer.makeEnvironment(base, folder), { env, signal });
    if (!ok) throw failed(`It could not be created with ${installer.name}: ${failure}.`, venvHint(failure));
    return await fill({ ...options, env, installer, words: packages });
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** On failure, the environment stays, with its old record. */
async function extend(options: Creation, { packages, installer: name }: Record, lacking: string[]): Promise<Created> {
  const env = installerEnv(options.env, options.packageIndex);
  const uv = findUv(env, options.cacheDir);
  if (name === "uv" && !uv) {
    throw failed(
      "It was created with uv, which is no longer installed.",
      "Install uv, or remove it and create it again.",
    );
  }
  const installer = name === "uv" && uv ? uvInstaller(uv) : pipInstaller();
  return fill({ ...options, packages: [...packages, ...lacking], env, installer, words: lacking });
}

async function fill(options: Creation & { installer: Installer; words: string[] }): Promise<Created> {
  const { folder, packages, installer, words, env, signal, progress } = options;
  const python = usualInterpreter(folder);
  const compiles = !installer.compiles && !options.withoutByteCode;
  const report = part(progress, 0.08, compiles ? 0.5 : 1);
  report({ fraction: 0, message: "choosing versions" });
  const command = installer.install(python, [...wheelsOnly(), ...words]);
  const { ok, failure } = await run(command, { env, signal, onLine: installer.listen(report) });
  if (!ok) throw failed(`Its packages could not be installed: ${failure}.`);
  if (compiles) await compile(options, part(progress, 0.5, 1));

  const interpreter = await answerOf(folder, env);
  if (!interpreter) throw failed("It was created, but its Python does not run.");
  if (packages.includes("ipykernel") && !interpreter.hasIpykernel)
    throw failed("It was created, but has no ipykernel.");
  const record: Record = { folder: realPath(folder), packages, installer: installer.name };
  await writeFile(join(folder, RECORD), `${JSON.stringify(record, null, 2)}\n`);
  progress?.({ fraction: 1, message: "ready" });
  return { ...created(folder, interpreter, words), installer: installer.name };
}

async function findInstaller(base: Interpreter, options: Creation): Promise<Installer> {
  const found = findUv(options.env, options.cacheDir);
  if (found) return uvInstaller(found);
  options.progress?.({ fraction: 0.01, message: "downloading uv" });
  const fetched = await fetchUv(base, options);
  return fetched ? uvInstaller(fetched) : pipInstaller();
}

/** uv leaves this to the first import, which cannot write in a jail: every start would compile everything again. */
async function compile({ folder, env, signal }: Creation, progress: ReportProgress): Promise<void> {
  progress({ fraction: 0, message: "compiling" });
  const { ok, failure } = await run([usualInterpreter(folder), "-I", compileFile, folder], {
    env,
    signal,
    onLine: (line) => {
      const [, done, total] = /^(\d+)\/(\d+)$/.exec(line) ?? [];
      if (done && total)
        progress({ fraction: Number(done) / Number(total), message: `compiling ${done} of ${total} files` });
    },
  });
  if (!ok) throw failed(`Its packages could not be compiled: ${failure}.`);
}

/** Standard packages are never built from source: that needs compilers, runs their code, and takes half an hour. */
function wheelsOnly(): string[] {
  return standardPackages.flatMap((name) => ["--only-binary", name]);
}

function run([file, ...args]: CommandLine, options: Omit<CommandOptions, "timeoutMs">) {
  return runCommand(file, args, { ...options, timeoutMs: STEP_TIMEOUT_MS });
}

/** Maps one step's progress, 0 to 1, to the range `from` to `to` of the whole. Never decreases. */
function part(report: ReportProgress | undefined, from: number, to: number): ReportProgress {
  let reached = 0;
  return ({ fraction, message }) => {
    reached = Math.max(reached, Math.min(fraction, 1));
    report?.({ fraction: from + (to - from) * reached, message });
  };
}

async function answerOf(folder: string, env: NodeJS.ProcessEnv): Promise<Interpreter | undefined> {
  const python = interpreterIn(folder);
  return python === undefined ? undefined : askOpenly(python, env);
}

function readRecord(folder: string): Record | undefined {
  try {
    const record = JSON.parse(textOf(join(folder, RECORD))) as Record;
    const isOurs = record.folder === realPath(folder) && Array.isArray(record.packages);
    return isOurs && existsSync(folder) ? record : undefined;
  } catch {
    return undefined;
  }
}

function created(folder: string, { version }: Interpreter, installed: string[]): Created {
  return { folder, python: usualInterpreter(folder), version, installed };
}

function failed(why: string, hint = "Fix that and run the same command again."): CellwrightError {
  return new CellwrightError("env_error", `The environment is not ready. ${why}`, { hint });
}

function venvHint(failure: string): string | undefined {
  return /ensurepip|venv/.test(failure) ? "On Debian and Ubuntu, install python3-venv and run it again." : undefined;
}
