import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, constants, openSync } from "node:fs";
import { join } from "node:path";
import { CellwrightError } from "../../errors.ts";
import type { ProcessExit } from "../../isolation/exit.ts";
import type { Jail } from "../../isolation/jail.ts";
import type { ProcessLimits } from "../../isolation/limits/limits.ts";
import { type JailIds, killJailed, programPid, spawnJailed, withLimits } from "../../isolation/spawn.ts";
import type { Log } from "../../log.ts";
import { type ProcessId, processId } from "../../process/process-life.ts";
import type { KernelLife } from "../protocol/kernel.ts";
import { kernelDir, packageDirs } from "../python/folders.ts";
import { readyInTime } from "../starting.ts";
import { lifeOf } from "./kernel-process.ts";

/** The request for `boot.run` in the new process. Paths are as that process sees them. */
export interface BootRequest {
  connectionFile: string;
  workingDir: string;
  /** Descriptors opened before the jail. `zygote.py` fills them in for its children. */
  journalFd?: number;
  heartbeatFd?: number;
  /** The kernel ends itself when its heartbeat is older than this. */
  ttlSeconds: number;
  /** The session's own packages. */
  overlayDir?: string;
  /** The folders of the package `_cellwright`. */
  folders: string[];
}

/** The process of a new kernel, forked or cold started. */
export interface KernelStart {
  /** The descriptors and folders are added later. */
  request: Omit<BootRequest, "journalFd" | "heartbeatFd" | "folders">;
  /** Host paths; created if missing, but not their folders. The server touches the heartbeat while it runs. */
  journalFile: string;
  heartbeatFile: string;
  /** The whole environment of the process. Ignored in a jail, which has its own. */
  env: Record<string, string>;
  jail?: Jail | undefined;
  limits?: ProcessLimits | undefined;
}

export interface ColdStart extends KernelStart {
  python: string;
  startTimeoutMs: number;
  signal: AbortSignal;
  log: Log;
  /** Explains the exit in a sentence, better than the exit code does. */
  causeOfDeath?: ((exit: ProcessExit) => Promise<string>) | undefined;
}

export interface ColdKernel {
  life: KernelLife;
  /** `process` gets SIGINT; `jail`, if present, gets SIGKILL. */
  record: { process: ProcessId; jail?: ProcessId };
  /** The tail of stderr until the kernel redirected it: why a start failed. */
  lastWords(): string;
}

const JOURNAL_FD = 3;
const HEARTBEAT_FD = 4;
const MAX_LAST_WORDS_CHARS = 4_000;

/** Cold start of an interpreter, detached: it outlives this process. Throws if no process could be started. */
export async function startCold(start: ColdStart): Promise<ColdKernel> {
  const request: BootRequest = {
    ...start.request,
    journalFd: JOURNAL_FD,
    heartbeatFd: HEARTBEAT_FD,
    folders: packageDirs,
  };
  const { child, ids } = spawnPython(start, [start.python, join(kernelDir, "cold.py"), JSON.stringify(request)]);
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
  if (child.pid === undefined) {
    await exited;
    throw new CellwrightError("kernel_start_failed", `The kernel did not start. ${lastWords}`);
  }
  const record = await readyInTime(identify(child.pid, ids), { ...start, who: "The kernel" }).catch(async (error) => {
    if (ids) killJailed({ child, ids });
    await exited;
    throw error;
  });
  const life = lifeOf({ ...record.process, jail: record.jail, exited }, start.causeOfDeath);
  return { life, record, lastWords: () => lastWords };
}

function spawnPython(
  { journalFile, heartbeatFile, jail, limits, env }: ColdStart,
  command: string[],
): { child: ChildProcess; ids?: Promise<JailIds | undefined> } {
  const { O_CREAT, O_TRUNC, O_APPEND, O_RDWR, O_RDONLY } = constants;
  const journal = openSync(journalFile, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0o600);
  const heartbeat = openSync(heartbeatFile, O_RDONLY | O_CREAT, 0o600);
  // Stderr is a pipe only until the kernel is ready and has redirected it.
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

async function identify(pid: number, jailIds?: Promise<JailIds | undefined>): Promise<ColdKernel["record"]> {
  const ids = await jailIds;
  if (ids === undefined) return { process: await processId(pid) };
  const program = await programPid(ids.first);
  const jail = await processId(ids.ending);
  return { process: program === undefined ? jail : await processId(program), jail };
}
