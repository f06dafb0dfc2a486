import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { CellwrightError } from "../../../errors.ts";
import { findBasePython } from "./base-python.ts";
import { interpreterIn, usualInterpreter } from "./candidate.ts";
import { runCommand } from "./command.ts";
import { realPath, textOf } from "./folders.ts";
import { type Installer, pipInstaller } from "./installer.ts";
import type { Interpreter } from "./interpreter.ts";
import { withLock } from "./lock.ts";
import { standardPackages } from "./packages.ts";
import { installerEnv } from "./pip-settings.ts";
import { askInterpreter, openly } from "./probe.ts";
import { part, type ReportProgress } from "./progress.ts";
import { Remembered } from "./remembered.ts";
import { fetchUv, findUv, uvInstaller } from "./uv.ts";

/** For one command: 200 MB over a slow line. */
const STEP_TIMEOUT_MS = 30 * 60_000;
const compileFile = fileURLToPath(new URL("compile.py", import.meta.url));

/** Written last into an environment that Cellwright made. Without it the making did not end. */
const RECORD = "cellwright.json";

interface Record {
  /** An environment holds its own path and does not survive being moved. */
  folder: string;
  packages: string[];
  installer: Installer["name"];
}

export interface SetUpOptions {
  /** Of this program: where its pip and uv find packages is where these are found. */
  env: NodeJS.ProcessEnv;
  packageIndex?: string | undefined;
  /** Not to write byte code: the first import of each module does, where it may. */
  withoutByteCode?: boolean;
  signal?: AbortSignal | undefined;
  progress?: ReportProgress | undefined;
}

export interface Created {
  folder: string;
  python: string;
  version: string;
  /** What this call has installed; empty when all was there. */
  installed: string[];
  installer?: Installer["name"];
}

/** Whether an environment is there, to the end. Starts nothing. */
export function isComplete(folder: string): boolean {
  return readRecord(folder) !== undefined && interpreterIn(folder) !== undefined;
}

/** Makes an environment with these packages, or adds those that it lacks. Throws `env_error` and leaves no half of one. */
export async function createEnvironment(
  options: SetUpOptions & { folder: string; cacheDir: string; packages: string[] },
): Promise<Created> {
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

async function make(options: Parameters<typeof createEnvironment>[0]): Promise<Created> {
  const { folder, packages, progress, signal } = options;
  progress?.({ fraction: 0, message: "looking for Python" });
  const base = await findBasePython(options.env);
  const env = installerEnv(options.env, options.packageIndex);
  const installer = await findInstaller(base, { ...options, env });
  try {
    await rm(folder, { recursive: true, force: true });
    progress?.({ fraction: 0.05, message: `making an environment of Python ${base.version}` });
    const { ok, failure } = await run(installer.makeEnvironment(base, folder), { env, signal });
    if (!ok) throw failed(`It could not be made with ${installer.name}: ${failure}.`, venvHint(failure));
    return await fill({ ...options, env, installer, words: packages });
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** What was there stays when it fails: the record still tells of it. */
async function extend(
  options: Parameters<typeof createEnvironment>[0],
  { packages, installer: name }: Record,
  lacking: string[],
): Promise<Created> {
  const env = installerEnv(options.env, options.packageIndex);
  const uv = findUv(env, options.cacheDir);
  if (name === "uv" && !uv) {
    throw failed("It was made with uv, which is not here any more.", "Install uv, or remove it and create it again.");
  }
  const installer = name === "uv" && uv ? uvInstaller(uv) : pipInstaller();
  return fill({ ...options, packages: [...packages, ...lacking], env, installer, words: lacking });
}

async function fill(options: {
  folder: string;
  packages: string[];
  installer: Installer;
  words: string[];
  env: NodeJS.ProcessEnv;
  withoutByteCode?: boolean;
  signal?: AbortSignal | undefined;
  progress?: ReportProgress | undefined;
}): Promise<Created> {
  const { folder, packages, installer, words, env, signal, progress } = options;
  const python = usualInterpreter(folder);
  const compiles = !installer.compiles && !options.withoutByteCode;
  const report = part(progress, 0.08, compiles ? 0.5 : 1);
  report({ fraction: 0, message: "choosing versions" });
  const command = installer.install(python, [...wheelsOnly(), ...words]);
  const { ok, failure } = await run(command, { env, signal, onLine: installer.listen(report) });
  if (!ok) throw failed(`Its packages could not be installed: ${failure}.`);
  if (compiles) await compile(folder, { env, signal, progress: part(progress, 0.5, 1) });

  const interpreter = await answerOf(folder, env);
  if (!interpreter) throw failed("It was made, but its Python does not run.");
  if (packages.includes("ipykernel") && !interpreter.hasIpykernel) throw failed("It was made, but has no ipykernel.");
  const record: Record = { folder: realPath(folder), packages, installer: installer.name };
  await writeFile(join(folder, RECORD), `${JSON.stringify(record, null, 2)}\n`);
  progress?.({ fraction: 1, message: "ready" });
  return { ...created(folder, interpreter, words), installer: installer.name };
}

async function findInstaller(
  base: Interpreter,
  options: {
    env: NodeJS.ProcessEnv;
    cacheDir: string;
    signal?: AbortSignal | undefined;
    progress?: ReportProgress | undefined;
  },
): Promise<Installer> {
  const found = findUv(options.env, options.cacheDir);
  if (found) return uvInstaller(found);
  options.progress?.({ fraction: 0.01, message: "getting uv, which installs quickly" });
  const fetched = await fetchUv(base, options);
  return fetched ? uvInstaller(fetched) : pipInstaller();
}

/** uv leaves it to the first import, which in a jail cannot write: each start would compile all it imports again. */
async function compile(
  folder: string,
  { env, signal, progress }: { env: NodeJS.ProcessEnv; signal?: AbortSignal | undefined; progress: ReportProgress },
): Promise<void> {
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

/** A standard package is never built here: that needs compilers, runs its code, and takes half an hour. */
function wheelsOnly(): string[] {
  return standardPackages.flatMap((name) => ["--only-binary", name]);
}

function run(
  [file, ...args]: [string, ...string[]],
  options: { env: NodeJS.ProcessEnv; signal?: AbortSignal | undefined; onLine?: (line: string) => void },
) {
  const { onLine, ...rest } = options;
  return runCommand(file, args, {
    ...rest,
    timeoutMs: STEP_TIMEOUT_MS,
    onLine: (line) => {
      onLine?.(line);
      return false;
    },
  });
}

async function answerOf(folder: string, env: NodeJS.ProcessEnv): Promise<Interpreter | undefined> {
  const python = interpreterIn(folder);
  const question = { python: python ?? "", paths: [], isVouched: true };
  const answer = python && (await askInterpreter(question, { remembered: new Remembered(), env, jail: openly }));
  return answer && "interpreter" in answer ? answer.interpreter : undefined;
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

function failed(why: string, hint = "Repair that and run the same command again."): CellwrightError {
  return new CellwrightError("env_error", `The environment is not ready. ${why}`, { hint });
}

function venvHint(failure: string): string | undefined {
  return /ensurepip|venv/.test(failure) ? "On Debian and Ubuntu, install python3-venv and run it again." : undefined;
}
