import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { mkdir, open, readdir, readFile, stat } from "node:fs/promises";
import { connect } from "node:net";
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import type { Enclosure } from "../../../isolation/enclosure.ts";
import { jailHostDir } from "../../../isolation/fork-jail.ts";
import type { Log } from "../../../log.ts";
import { pidNamespace } from "../../../process/process-life.ts";
import { packageDirs, zygoteDir } from "../../python/folders.ts";
import { Zygote } from "./zygote.ts";

export interface ZygoteOptions {
  python: string;
  /** A private folder for sockets, locks and logs of zygotes. */
  stateDir: string;
  /** Modules to import in advance, if installed. */
  preload: string[];
  /** Changes with the environment's packages, which then need a new zygote. */
  stamp?: string;
  /** The zygote's sandbox; its kernels enter their own jails. Absent: it has all rights of this process. */
  enclosure?: Enclosure | undefined;
  /** How long it lives without a server and without a kernel. */
  idleSeconds?: number;
  log: Log;
}

/** Imports take a few seconds, and many times longer on a loaded machine. */
const START_TIMEOUT_MS = 60_000;
/** Poll interval for a zygote that another server is starting. */
const LOOK_MS = 50;
/** Polls before the next attempt to start one here. */
const LOOKS = 40;
const DEFAULT_IDLE_SECONDS = 60;
/** How much of its log goes into the failure's reason. */
const MAX_REASON_CHARS = 600;

/** Connects to the environment's zygote, or starts one. Throws with a reason on failure: then kernels start cold. */
export async function openZygote(options: ZygoteOptions): Promise<Zygote> {
  if (process.platform !== "linux") throw new Error("kernels are forked on Linux only");
  const { stateDir, log } = options;
  const signal = AbortSignal.timeout(START_TIMEOUT_MS);
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  const name = await nameOf(options);
  for (let looks = 1; ; ) {
    const found = await connectZygote(join(stateDir, `${name}.sock`));
    if (found) {
      for (const [module, why] of Object.entries(found.info.left)) log.debug(`${module} is not preloaded: ${why}`);
      return found;
    }
    signal.throwIfAborted();
    looks -= 1;
    if (looks > 0) await pause(LOOK_MS, undefined, { signal });
    else looks = (await startZygote(name, options, signal)) === "busy" ? LOOKS : 1;
  }
}

/** The zygote behind a socket, if there is one. */
export async function connectZygote(socketFile: string): Promise<Zygote | undefined> {
  // A socket address holds at most 107 bytes; the path through a descriptor of its folder is always short.
  const folder = await open(dirname(socketFile), constants.O_DIRECTORY).catch(() => undefined);
  if (!folder) return undefined;
  const socket = connect(`/proc/self/fd/${folder.fd}/${basename(socketFile)}`);
  try {
    return await new Promise((resolve, reject) => {
      const lines = createInterface({ input: socket });
      // readline re-emits its input's errors.
      lines.on("error", reject);
      lines.once("line", (line) => resolve(new Zygote({ socket, lines, socketFile, info: JSON.parse(line).hello })));
      socket.once("error", reject);
      socket.once("close", () => reject(new Error("it left")));
    });
  } catch {
    socket.destroy();
    return undefined;
  } finally {
    await folder.close();
  }
}

/** Resolves when it listens ("ready"), or when another process holds the name's lock ("busy"). */
async function startZygote(name: string, options: ZygoteOptions, signal: AbortSignal): Promise<"ready" | "busy"> {
  const { python, stateDir } = options;
  const logFile = join(stateDir, `${name}.log`);
  const stderr = await open(logFile, "w", 0o600);
  // -I: ignores this process's settings and the user's site-packages, which code may be able to write to.
  // Kernels can read this environment and the command line, so both contain nothing secret.
  const child = spawn(python, ["-I", join(zygoteDir, "zygote.py")], {
    detached: true,
    cwd: "/",
    env: { PATH: [dirname(python), "/usr/local/bin", "/usr/bin", "/bin"].join(":"), LANG: "C.UTF-8" },
    stdio: ["pipe", "pipe", stderr.fd],
  });
  try {
    child.stdin?.on("error", () => {});
    child.stdin?.end(`${JSON.stringify(settingsOf(name, options))}\n`);
    const said = await new Promise<{ ready?: true; busy?: true; error?: string }>((resolve, reject) => {
      createInterface({ input: child.stdout as NodeJS.ReadableStream }).once("line", (line) =>
        resolve(JSON.parse(line)),
      );
      child.once("error", (error) => reject(new Error(`it could not be started: ${error.message}`)));
      child.once("exit", (code, by) => reject(new Error(`it ended with ${by ?? `exit code ${code}`}`)));
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    });
    if (said.error) throw new Error(said.error);
    child.unref();
    return said.busy ? "busy" : "ready";
  } catch (error) {
    child.kill("SIGKILL");
    const words = (await readFile(logFile, "utf8").catch(() => "")).trim().slice(-MAX_REASON_CHARS);
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(words ? `${reason}: ${words}` : reason, { cause: error });
  } finally {
    child.stdin?.destroy();
    child.stdout?.destroy();
    await stderr.close();
  }
}

function settingsOf(name: string, options: ZygoteOptions): object {
  const { stateDir, preload, enclosure, idleSeconds = DEFAULT_IDLE_SECONDS } = options;
  return {
    name,
    enclosure,
    stateDir,
    preload,
    left: {},
    idleSeconds,
    folders: packageDirs,
    jailFolder: jailHostDir,
    // Where packages cache the results of their first import, such as the list of fonts.
    env: { HOME: stateDir, MPLCONFIGDIR: join(stateDir, "matplotlib") },
  };
}

/** Unique per environment, state of its packages and version of our Python files: a zygote keeps them in memory. */
async function nameOf({ python, preload, stamp, enclosure, idleSeconds }: ZygoteOptions): Promise<string> {
  const { mtimeMs } = await stat(python).catch(() => ({ mtimeMs: 0 }));
  // Two containers with one data folder must not share a zygote: its process ids mean nothing in the other one.
  const place = await pidNamespace();
  const facts = [python, mtimeMs, preload, stamp, enclosure, idleSeconds, place];
  const hash = createHash("sha256").update(JSON.stringify(facts));
  for (const folder of [zygoteDir, ...packageDirs, jailHostDir]) {
    const names = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith(".py")).sort();
    for (const name of names) hash.update(name).update(await readFile(join(folder, name)));
  }
  return `zygote-${hash.digest("hex").slice(0, 12)}`;
}
