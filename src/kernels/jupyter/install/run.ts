import { type ChildProcess, spawn } from "node:child_process";
import { realpathSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Jail } from "../../../jail/jail.ts";
import { inside, localJail } from "../../../jail/local-jail.ts";
import { spawnJailed } from "../../../jail/spawn.ts";
import type { InstalledPackage } from "../../kernel.ts";
import type { PythonEnvironment } from "../environments/environment.ts";
import type { Gateway } from "./gateway.ts";

const script = realpathSync(fileURLToPath(new URL("install.py", import.meta.url)));
const RESULT = "cellwright-result ";
/** What is kept of its output: the result, which comes last, and a failure's words in it. */
const KEPT_CHARS = 256 * 1024;
/** Hundreds of megabytes over a slow line. */
const TIMEOUT_MS = 15 * 60_000;

export interface InstallRun {
  environment: PythonEnvironment;
  requirements: string[];
  upgrade: boolean;
  gateway: Gateway;
  /** Folders of wheels. */
  folders: string[];
  /** A uv to use where the environment has no pip. */
  uv: string | undefined;
  /** A folder for this run only, and the only one it can write to; the packages are in `site` below it afterwards. */
  folder: string;
  overlayDir: string;
  jailed: boolean;
  signal: AbortSignal;
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
  | { failure: "ended"; how: string };

/** Runs one installation, in a jail of its own where there are jails. Rejects only when aborted. */
export async function runInstall(run: InstallRun): Promise<InstallResult> {
  const { environment, requirements, upgrade, gateway, folders, uv, signal, jailed } = run;
  const own = jailed
    ? { folder: inside.workspace, overlay: inside.packages }
    : { folder: run.folder, overlay: run.overlayDir };
  await mkdir(join(run.folder, "tmp"));
  const request = { ...own, requirements, upgrade, folders, uv: uv ?? null, indexUrls: gateway.indexUrls };
  const command = [environment.python, "-I", script, JSON.stringify(request)];
  const env = installEnv(environment, own.folder);
  signal.throwIfAborted();
  const { child, kill } = jailed ? startJailed(await jailOf(run, env), command) : startOpenly(command, env);
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  const ending = AbortSignal.any([signal, timeout]);
  ending.addEventListener("abort", kill, { once: true });
  try {
    const { exit, said } = await outputOf(child);
    signal.throwIfAborted();
    if (timeout.aborted) return { failure: "ended", how: `it did not end within ${TIMEOUT_MS / 60_000} minutes` };
    const line = said.split("\n").findLast((each) => each.startsWith(RESULT));
    return line
      ? JSON.parse(line.slice(RESULT.length))
      : { failure: "ended", how: `${exit} ${said.trim().slice(-1_000)}` };
  } finally {
    ending.removeEventListener("abort", kill);
    kill();
  }
}

async function jailOf({ environment, gateway, folder, overlayDir, folders, uv }: InstallRun, env: Env): Promise<Jail> {
  return localJail({
    environmentPaths: environment.readPaths,
    python: environment.python,
    supportPaths: [script, ...folders, ...(uv ? [uv] : [])],
    workspaceDir: folder,
    overlayDir,
    network: gateway.socketDir ? { proxyDir: gateway.socketDir } : "none",
    env,
  });
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

function startJailed(jail: Jail, command: string[]) {
  const { child, firstPid } = spawnJailed(jail, command, { stdio: ["ignore", "pipe", "pipe"] });
  const kill = () => {
    child.kill("SIGKILL");
    // Bubblewrap takes its jail with it, unless it had not come that far.
    void firstPid.then((pid) => pid !== undefined && child.exitCode === null && killQuietly(pid));
  };
  return { child, kill };
}

function startOpenly([program = "", ...args]: string[], env: Env) {
  const child = spawn(program, args, { cwd: "/", env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  // With what it has started.
  return { child, kill: () => child.pid !== undefined && child.exitCode === null && killQuietly(-child.pid) };
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
