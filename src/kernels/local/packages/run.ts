import { type ChildProcess, spawn } from "node:child_process";
import { realpathSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Isolation, type Jail, seenAt } from "../../../isolation/jail.ts";
import type { ProcessLimits } from "../../../isolation/limits/limits.ts";
import { tooMuchOnDisk, type UseWatching, watchUse } from "../../../isolation/limits/use-watch.ts";
import { localJail } from "../../../isolation/local-jail.ts";
import { familyOf } from "../../../isolation/processes.ts";
import { killJailed, spawnJailed, withLimits } from "../../../isolation/spawn.ts";
import { exitOf } from "../../../process/ending.ts";
import { killGroup } from "../../../process/kill.ts";
import type { InstalledPackage } from "../../kernel.ts";
import type { PythonEnvironment } from "../environments/environment.ts";
import type { Gateway } from "./gateway.ts";

const script = realpathSync(fileURLToPath(new URL("install.py", import.meta.url)));
const RESULT = "cellwright-result ";
const MB = 1024 * 1024;
/** How much of its output is kept: enough for the result, which comes last. */
const KEPT_CHARS = 256 * 1024;
const WHO = "The installer";
/** EDQUOT as reported by pip and by uv: the installer reached its jail's quota. */
const overQuota = /Disk quota exceeded|os error 122/;
/** Enough for hundreds of megabytes over a slow connection. */
const TIMEOUT_MS = 15 * 60_000;

export interface InstallRun {
  environment: PythonEnvironment;
  requirements: string[];
  upgrade: boolean;
  gateway: Gateway;
  /** Folders of wheels. */
  folders: string[];
  /** uv's index strategy. */
  strategy: string;
  /** Used if the environment has no usable pip. */
  uv: string | undefined;
  /** A folder for this run only, and the only one that the installer can write to. Packages end up in its `site`. */
  folder: string;
  overlayDir: string;
  /** Undefined: unlimited. */
  limits: InstallLimits | undefined;
  /** Undefined with --jail none. */
  isolation: Isolation | undefined;
  signal: AbortSignal;
}

export interface InstallLimits {
  forProcess: ProcessLimits;
  memoryMb: number;
  /** For the session's packages, including those being unpacked. */
  diskMb: number;
}

/** The result of `install.py`, or why it has none. */
export type InstallResult =
  | {
      failure?: undefined;
      /** The requested packages and their dependencies. */
      packages: (InstalledPackage & { modules: string[] })[];
      /** Names of those that the environment also has. */
      replaced: string[];
    }
  | { failure: "no-installer" }
  | { failure: "said"; said: string }
  /** A limit was exceeded; `why` is a sentence. */
  | { failure: "limit"; why: string }
  | { failure: "ended"; how: string };

/** Runs one installation, in its own jail unless isolation is off. Rejects only when aborted. */
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
    if (!line) return { failure: "ended", how: `${exit}: ${said.trim().slice(-1_000)}` };
    const result: InstallResult = JSON.parse(line.slice(RESULT.length));
    const isOver = jail?.quota && result.failure === "said" && overQuota.test(result.said);
    return isOver ? { failure: "limit", why: tooMuchOnDisk(WHO, run.limits?.diskMb ?? 0) } : result;
  } finally {
    watch?.stop();
    ending.removeEventListener("abort", kill);
    kill();
  }
}

/** Watches the disk use while packages are unpacked, and the memory of all the installer's processes. */
function watched(
  { limits, folder, overlayDir }: InstallRun,
  topPid: Promise<number | undefined>,
  onExceeded: (why: string) => void,
): UseWatching | undefined {
  if (!limits) return undefined;
  const { memoryMb, diskMb } = limits;
  const processes = async () => familyOf((await topPid) ?? 0);
  const folders = [folder, overlayDir];
  const counted = { processes, folders, diskMb, countsBefore: true, memoryMb };
  return watchUse({ ...counted, who: WHO, isBusy: () => true, onExceeded });
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
  // A fast disk can take a gigabyte between two checks of the watch, and a small wheel can unpack to that much.
  return { ...jail, quota: { folders: [jail.workingDir, seenAt(jail, overlayDir)], bytes: limits.diskMb * MB } };
}

type Env = Record<string, string>;

/** The whole environment without a jail, else added to the jail's. The user's pip and uv settings do not apply. */
function installEnv(environment: PythonEnvironment, folder: string): Env {
  return {
    PATH: [dirname(environment.python), "/usr/local/bin", "/usr/bin", "/bin"].join(":"),
    HOME: process.platform === "win32" ? homedir() : folder,
    LANG: "C.UTF-8",
    // Wheels are unpacked there; a /tmp in memory would be too small.
    TMPDIR: join(folder, "tmp"),
    PIP_CONFIG_FILE: "/dev/null",
    UV_HTTP_RETRIES: "0",
    NO_COLOR: "1",
    no_proxy: "127.0.0.1",
    NO_PROXY: "127.0.0.1",
  };
}

function startJailed(jail: Jail, command: string[], limits: ProcessLimits | undefined) {
  const jailed = spawnJailed(jail, command, { stdio: ["ignore", "pipe", "pipe"], limits });
  const topPid = jailed.ids.then((found) => found?.ending);
  return { child: jailed.child, topPid, kill: () => killJailed(jailed) };
}

function startOpenly(command: string[], env: Env, limits: ProcessLimits | undefined) {
  const [program = "", ...args] = limits ? withLimits(limits, command) : command;
  const child = spawn(program, args, { cwd: "/", env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  return { child, topPid: Promise.resolve(child.pid), kill: () => killGroup(child) };
}

async function outputOf(child: ChildProcess): Promise<{ exit: string; said: string }> {
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-KEPT_CHARS);
    });
  }
  return { exit: await exitOf(child), said };
}
