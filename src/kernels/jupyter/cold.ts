import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, constants, openSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CellwrightError } from "../../errors.ts";
import type { Jail } from "../../jail/jail.ts";
import type { ProcessExit, ProcessLimits } from "../../jail/limits.ts";
import { type JailIds, programPid, spawnJailed, withLimits } from "../../jail/spawn.ts";
import type { Log } from "../../log.ts";
import { startOf } from "../../process-life.ts";
import type { KernelLife } from "./kernel.ts";
import { lifeOf, type ProcessId } from "./kernel-process.ts";

/** What `boot.run` in the new process is told. Paths are as that process sees them. */
export interface BootRequest {
  connectionFile: string;
  workingDir: string;
  /** Descriptors opened before the jail. `zygote.py` fills them in for its children. */
  journalFd?: number;
  heartbeatFd?: number;
  /** Nobody touched the heartbeat for so long: the kernel ends itself. */
  ttlSeconds?: number;
  /** The session's own packages. */
  overlayDir?: string;
  preludeDir: string;
  hostDir: string;
}

export interface ColdStart {
  python: string;
  /** Without the descriptors and our folders, which are added here. */
  request: Omit<BootRequest, "journalFd" | "heartbeatFd" | "preludeDir" | "hostDir">;
  /** On this machine; made when missing. The server touches the heartbeat while it lives. */
  journalFile: string;
  heartbeatFile: string;
  /** Without a jail this is the whole environment; in a jail the jail's own is. */
  env: Record<string, string>;
  jail?: Jail | undefined;
  limits?: ProcessLimits | undefined;
  log: Log;
  /** Why it died, as a sentence, if something knows better than the exit code. */
  causeOfDeath?: ((exit: ProcessExit) => Promise<string>) | undefined;
}

export interface ColdKernel {
  life: KernelLife;
  /** Who gets SIGINT, and in a jail who gets SIGKILL; known a moment after the start. */
  record(): Promise<ColdProcess>;
  /** The end of what it wrote to stderr before it had an output of its own: why a start failed. */
  lastWords(): string;
}

/** The Python files of a kernel, by real path: to be readable in its jail. */
export const hostDir: string = realpathSync(fileURLToPath(new URL("./host", import.meta.url)));
export const preludeDir: string = realpathSync(fileURLToPath(new URL("../prelude", import.meta.url)));

const JOURNAL_FD = 3;
const HEARTBEAT_FD = 4;
const MAX_LAST_WORDS_CHARS = 4_000;

/** Starts an interpreter from nothing, detached: it outlives this process. */
export function startCold(start: ColdStart): ColdKernel {
  const request: BootRequest = {
    ...start.request,
    journalFd: JOURNAL_FD,
    heartbeatFd: HEARTBEAT_FD,
    hostDir,
    preludeDir,
  };
  const { child, ids } = spawnPython(start, [start.python, join(hostDir, "cold.py"), JSON.stringify(request)]);
  child.unref();
  let lastWords = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    lastWords = (lastWords + text).slice(-MAX_LAST_WORDS_CHARS);
  });
  const exited = new Promise<ProcessExit>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
    child.once("error", (error) => {
      lastWords = error.message;
      resolve({ code: null, signal: null });
    });
  });
  void exited.then(() => lastWords && start.log.debug(`a kernel's stderr: ${lastWords}`));
  const record = identify(child, ids);
  const life = record.then((ids) =>
    ids ? lifeOf({ ...ids.process, jail: ids.jail, exited }, start.causeOfDeath) : neverLived,
  );
  return {
    life: {
      interrupt: async () => (await life).interrupt(),
      kill: async (reason) => (await life).kill(reason),
      exited: life.then(({ exited }) => exited),
    },
    record: async () => {
      const ids = await record;
      if (!ids) throw new CellwrightError("kernel_start_failed", `The kernel did not start. ${lastWords}`.trim());
      return ids;
    },
    lastWords: () => lastWords,
  };
}

/** A process that was not made. */
const neverLived: KernelLife = {
  interrupt: async () => {},
  kill: async () => {},
  exited: Promise.resolve({ reason: "The kernel's process could not be started." }),
};

function spawnPython(
  { journalFile, heartbeatFile, jail, limits, env }: ColdStart,
  command: string[],
): { child: ChildProcess; ids?: Promise<JailIds | undefined> } {
  const { O_CREAT, O_TRUNC, O_APPEND, O_RDWR, O_RDONLY } = constants;
  const journal = openSync(journalFile, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0o600);
  const heartbeat = openSync(heartbeatFile, O_RDONLY | O_CREAT, 0o600);
  // Stderr is a pipe only until the kernel has an output of its own, which is when it is ready.
  const stdio = ["ignore" as const, "ignore" as const, "pipe" as const, journal, heartbeat];
  try {
    if (jail) return spawnJailed(jail, command, { stdio, limits, survives: true });
    const [program = "", ...args] = limits ? withLimits(limits, command) : command;
    return { child: spawn(program, args, { cwd: "/", env, detached: true, stdio }) };
  } finally {
    closeSync(journal);
    closeSync(heartbeat);
  }
}

interface ColdProcess {
  process: ProcessId;
  jail?: ProcessId;
}

/** Undefined: there never was one. */
async function identify(
  child: ChildProcess,
  jailIds: Promise<JailIds | undefined> | undefined,
): Promise<ColdProcess | undefined> {
  if (child.pid === undefined) return undefined;
  const ids = await jailIds;
  if (ids === undefined) return { process: await named(child.pid) };
  const program = await programPid(ids.first);
  const jail = await named(ids.ending);
  return { process: program === undefined ? jail : await named(program), jail };
}

async function named(pid: number): Promise<ProcessId> {
  return { pid, start: await startOf(pid) };
}
