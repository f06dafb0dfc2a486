import { type ChildProcess, spawn } from "node:child_process";
import { realpathSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Isolation, type Jail, seenAt } from "../../../jail/jail.ts";
import type { ProcessLimits } from "../../../jail/limits.ts";
import { localJail } from "../../../jail/local-jail.ts";
import { familyOf } from "../../../jail/processes.ts";
import { spawnJailed, withLimits } from "../../../jail/spawn.ts";
import { tooMuchOnDisk, type UseWatching, watchUse } from "../../../jail/use-watch.ts";
import type { InstalledPackage } from "../../kernel.ts";
import type { PythonEnvironment } from "../environments/environment.ts";
import type { Gateway } from "./gateway.ts";

const script = realpathSync(fileURLToPath(new URL("install.py", import.meta.url)));
const RESULT = "cellwright-result ";
const MB = 1024 * 1024;
/** What is kept of its output: the result, which comes last, and a failure's words in it. */
const KEPT_CHARS = 256 * 1024;
const WHO = "The installer";
/** EDQUOT, in the words of pip and of uv: the quota of its jail, which stops it at the very byte. */
const overQuota = /Disk quota exceeded|os error 122/;
/** Hundreds of megabytes over a slow line. */
const TIMEOUT_MS = 15 * 60_000;

export interface InstallRun {
  environment: PythonEnvironment;
  requirements: string[];
  upgrade: boolean;
  gateway: Gateway;
  /** Folders of wheels. */
  folders: string[];
  /** What uv takes where several indexes have a package. */
  strategy: string;
  /** A uv to use where the environment has no pip. */
  uv: string | undefined;
  /** A folder for this run only, and the only one it can write to; the packages are in `site` below it afterwards. */
  folder: string;
  overlayDir: string;
  /** What it may use; without them, as much as it likes. */
  limits: InstallLimits | undefined;
  /** Undefined: none, by --jail none. */
  isolation: Isolation | undefined;
  signal: AbortSignal;
}

export interface InstallLimits {
  forProcess: ProcessLimits;
  memoryMb: number;
  /** For the session's packages with what is being unpacked. */
  diskMb: number;
}

/** What `install.py` says. */
export type InstallResult =
  | {
      failure?: undefined;
      /** Those that were asked for, and what came with them. */
      packages: (InstalledPackage & { modules: string[] })[];
      /** Names of those that the environment has, too. */
      replaced: string[];
    }
  | { failure: "no-installer" }
  | { failure: "said"; said: string }
  /** It used more than it may, in our words. */
  | { failure: "limit"; why: string }
  | { failure: "ended"; how: string };

/** Runs one installation, in a jail of its own where there are jails. Rejects only when aborted. */
export async function runInstall(run: InstallRun): Promise<InstallResult> {
  const { environment, requirements, upgrade, gateway, folders, uv, signal } = run;
  const jail = run.isolation && (await jailOf(run, run.isolation));
  const own = jail
    ? { folder: jail.workingDir, overlay: seenAt(jail, run.overlayDir) }
    : { folder: run.folder, overlay: run.overlayDir };
  await mkdir(join(run.folder, "tmp"));
  const indexes = { indexUrls: gateway.indexUrls, indexStrategy: run.strategy };
  const request = { ...own, requirements, upgrade, folders, uv: uv ?? null, ...indexes };
  const command = [environment.python, "-I", script, JSON.stringify(request)];
  const env = installEnv(environment, own.folder);
  signal.throwIfAborted();
  const limits = run.limits?.forProcess;
  const { child, topPid, kill } = jail
    ? startJailed({ ...jail, env: { ...jail.env, ...env } }, command, limits)
    : startOpenly(command, env, limits);
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  const ending = AbortSignal.any([signal, timeout]);
  ending.addEventListener("abort", kill, { once: true });
  let tooMuch: string | undefined;
  const watch = watched(run, topPid, (why) => {
    tooMuch = why;
    kill();
  });
  try {
    const { exit, said } = await outputOf(child);
    signal.throwIfAborted();
    tooMuch ??= await watch?.check();
    if (tooMuch !== undefined) return { failure: "limit", why: tooMuch };
    if (timeout.aborted) return { failure: "ended", how: `it did not end within ${TIMEOUT_MS / 60_000} minutes` };
    const line = said.split("\n").findLast((each) => each.startsWith(RESULT));
    if (!line) return { failure: "ended", how: `${exit} ${said.trim().slice(-1_000)}` };
    const result: InstallResult = JSON.parse(line.slice(RESULT.length));
    const isOver = jail?.quota && result.failure === "said" && overQuota.test(result.said);
    return isOver ? { failure: "limit", why: tooMuchOnDisk(WHO, run.limits?.diskMb ?? 0) } : result;
  } finally {
    watch?.stop();
    ending.removeEventListener("abort", kill);
    kill();
  }
}

/** What a file system takes while packages are unpacked, and what all of the installer's processes hold. */
function watched(
  { limits, folder, overlayDir }: InstallRun,
  topPid: Promise<number | undefined>,
  condemn: (why: string) => void,
): UseWatching | undefined {
  if (!limits) return undefined;
  const { memoryMb, diskMb } = limits;
  const processes = async () => familyOf((await topPid) ?? 0);
  const folders = [folder, overlayDir];
  const counted = { processes, folders, diskMb, countsBefore: true, memoryMb };
  return watchUse({ ...counted, who: WHO, isBusy: () => true, condemn });
}

async function jailOf(run: InstallRun, isolation: Isolation): Promise<Jail> {
  const { environment, gateway, folder, overlayDir, folders, uv, limits } = run;
  const jail = await localJail({
    isolation,
    environmentPaths: [...environment.readPaths, ...(environment.within ?? [])],
    python: environment.python,
    supportPaths: [script, ...folders, ...(uv ? [uv] : [])],
    workspaceDir: folder,
    overlayDir,
    network: gateway.socketDir ? { proxyDir: gateway.socketDir } : "none",
  });
  if (!limits) return jail;
  // A disk takes a gigabyte between two looks of the watch, and a small wheel can have as much in it.
  return { ...jail, quota: { folders: [jail.workingDir, seenAt(jail, overlayDir)], bytes: limits.diskMb * MB } };
}

type Env = Record<string, string>;

/** Its whole environment without a jail; in one, what it gets besides. Settings of pip and uv are ours alone. */
function installEnv(environment: PythonEnvironment, folder: string): Env {
  return {
    PATH: [dirname(environment.python), "/usr/local/bin", "/usr/bin", "/bin"].join(":"),
    HOME: process.platform === "win32" ? homedir() : folder,
    LANG: "C.UTF-8",
    // Wheels are unpacked there, and in memory there is little room.
    TMPDIR: join(folder, "tmp"),
    PIP_CONFIG_FILE: "/dev/null",
    UV_HTTP_RETRIES: "0",
    NO_COLOR: "1",
    no_proxy: "127.0.0.1",
    NO_PROXY: "127.0.0.1",
  };
}

function startJailed(jail: Jail, command: string[], limits: ProcessLimits | undefined) {
  const { child, ids } = spawnJailed(jail, command, { stdio: ["ignore", "pipe", "pipe"], limits });
  const kill = () => {
    child.kill("SIGKILL");
    // Its launcher takes the jail with it, unless it had not come that far.
    void ids.then((found) => found && child.exitCode === null && killQuietly(found.ending));
  };
  return { child, topPid: ids.then((found) => found?.ending), kill };
}

function startOpenly(command: string[], env: Env, limits: ProcessLimits | undefined) {
  const [program = "", ...args] = limits ? withLimits(limits, command) : command;
  const child = spawn(program, args, { cwd: "/", env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  // With what it has started.
  const kill = () => child.pid !== undefined && child.exitCode === null && killQuietly(-child.pid);
  return { child, topPid: Promise.resolve(child.pid), kill };
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It is gone.
  }
}

function outputOf(child: ChildProcess): Promise<{ exit: string; said: string }> {
  return new Promise((resolve) => {
    let said = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text: string) => {
        said = (said + text).slice(-KEPT_CHARS);
      });
    }
    child.once("error", (error) => resolve({ exit: error.message, said }));
    child.once("close", (code, signal) => resolve({ exit: signal ? `ended by ${signal}:` : `exit ${code}:`, said }));
  });
}
