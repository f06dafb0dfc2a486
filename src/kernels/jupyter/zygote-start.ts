import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { mkdir, open, readdir, readFile, stat } from "node:fs/promises";
import { connect } from "node:net";
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import type { Enclosure } from "../../jail/enclosure.ts";
import { jailHostDir } from "../../jail/fork-jail.ts";
import type { Log } from "../../log.ts";
import { hostDir, preludeDir } from "./cold.ts";
import { Zygote } from "./zygote.ts";

export interface ZygoteOptions {
  python: string;
  /** A private folder for sockets, locks and logs of zygotes. */
  stateDir: string;
  /** Modules that kernels need not import again, where they are installed. */
  preload: string[];
  /** Anything that tells one state of the environment's packages from a later one: then it is another zygote. */
  stamp?: string;
  /** What isolates the zygote itself; its kernels enter jails of their own. Absent: it has all rights of this process. */
  enclosure?: Enclosure | undefined;
  /** How long it stays without a server and without a kernel. */
  idleSeconds?: number;
  signal?: AbortSignal;
  log: Log;
}

/** Nobody waits for it for longer: some seconds of imports, many times over on a loaded machine. */
const START_TIMEOUT_MS = 60_000;
/** How often a zygote is looked for that another server is starting. */
const LOOK_MS = 50;
/** Looks before we try to start one ourselves again. */
const LOOKS = 40;
const DEFAULT_IDLE_SECONDS = 60;
/** Of its log, in the reason why there is no zygote. */
const MAX_REASON_CHARS = 600;

/**
 * The zygote of an environment: the one that is there, or a new one. Throws with a reason when there cannot be one;
 * kernels have to be started from nothing then.
 */
export async function openZygote(options: ZygoteOptions): Promise<Zygote> {
  if (process.platform !== "linux") throw new Error("kernels are forked on Linux only");
  const { stateDir, log } = options;
  const limit = AbortSignal.timeout(START_TIMEOUT_MS);
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
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
  // A socket's address holds 107 bytes; the way through a descriptor of its folder is always short.
  const folder = await open(dirname(socketFile), constants.O_DIRECTORY).catch(() => undefined);
  if (!folder) return undefined;
  const socket = connect(`/proc/self/fd/${folder.fd}/${basename(socketFile)}`);
  try {
    return await new Promise((resolve, reject) => {
      const lines = createInterface({ input: socket });
      // It passes on the errors of what it reads.
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

/** Resolves when it listens, or when another one has the name. */
async function startZygote(name: string, options: ZygoteOptions, signal: AbortSignal): Promise<"ready" | "busy"> {
  const { python, stateDir } = options;
  const logFile = join(stateDir, `${name}.log`);
  const stderr = await open(logFile, "w", 0o600);
  // -I: neither this process's settings nor the user's own packages, in which code may be able to write.
  // Kernels can read this environment and the command line, so there is nothing in them.
  const child = spawn(python, ["-I", join(hostDir, "zygote.py")], {
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
    if (options.signal?.aborted) throw error;
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
    folders: [preludeDir],
    jailFolder: jailHostDir,
    // Where packages keep what they work out at their first import, such as the list of fonts.
    env: { HOME: stateDir, MPLCONFIGDIR: join(stateDir, "matplotlib") },
  };
}

/** One name for one environment in one state and one version of our own files: a zygote has them in its memory. */
async function nameOf({ python, preload, stamp, enclosure, idleSeconds }: ZygoteOptions): Promise<string> {
  const { mtimeMs } = await stat(python).catch(() => ({ mtimeMs: 0 }));
  const hash = createHash("sha256").update(JSON.stringify([python, mtimeMs, preload, stamp, enclosure, idleSeconds]));
  for (const folder of [hostDir, preludeDir, jailHostDir]) {
    const names = (await readdir(folder)).filter((name) => name.endsWith(".py")).sort();
    for (const name of names) hash.update(name).update(await readFile(join(folder, name)));
  }
  return `zygote-${hash.digest("hex").slice(0, 12)}`;
}
