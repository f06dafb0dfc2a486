import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { CellwrightError } from "../../errors.ts";
import { seenAt } from "../../isolation/jail.ts";
import { SOCKETS_DIR } from "../../isolation/local-jail.ts";
import type { KernelSandbox, Sandboxes, WatchedKernel } from "../../isolation/sandboxes.ts";
import type { Log } from "../../log.ts";
import type { KernelInfo, StartOptions } from "../kernel.ts";
import { type Connection, createConnection, removeConnection } from "../protocol/connection.ts";
import { JupyterKernel, type JupyterKernelParts, type KernelLife } from "../protocol/kernel.ts";
import { shownBy } from "../protocol/newest-cell.ts";
import { ready } from "../protocol/ready.ts";
import { ZmqChannel } from "../protocol/zmq.ts";
import { packageDirs } from "../python/folders.ts";
import { readyInTime } from "../starting.ts";
import { startCold } from "./cold.ts";
import type { PythonEnvironment } from "./environments/environment.ts";
import { beat, SHORTEST_SILENCE_MS } from "./heartbeat.ts";
import { lifeOf } from "./kernel-process.ts";
import { type KernelRecord, removeKernelRecord, writeKernelRecord } from "./kernel-record.ts";
import type { Zygotes } from "./zygote/zygotes.ts";

export interface LocalStart extends StartOptions {
  environment: PythonEnvironment;
  sandboxes: Sandboxes;
  zygotes: Zygotes;
  /** How long an orphaned kernel lives on. */
  orphanTtlMs: number;
  startTimeoutMs: number;
  /** The session's own packages. */
  overlayDir?: string | undefined;
  /** Why the kernel must not be forked. */
  coldReason?: string | undefined;
  installer?: JupyterKernelParts["installer"];
  log: Log;
}

/** See python/output/journal.py: earlier cells, one cell with the maximum output, and a margin. */
const USUAL_JOURNAL_BYTES = 72 * 1024 * 1024;

/** A started process, forked or cold, that is about to become a kernel. */
interface Begun {
  life: KernelLife;
  record: Pick<KernelRecord, "process" | "jail" | "zygoteSocket">;
  notes: string[];
  lastWords(): Promise<string>;
}

/** Starts one kernel. A failed or aborted start leaves no process, socket or file behind. */
export async function startLocal(start: LocalStart): Promise<JupyterKernel> {
  const { environment, runDir, signal, log, overlayDir } = start;
  signal.throwIfAborted();
  const hasNamespaces = (await start.sandboxes.isolation())?.tier === "namespaces";
  const connection = await createConnection(runDir, hasNamespaces ? { insideDir: SOCKETS_DIR } : {});
  const undo: (() => unknown)[] = [() => removeConnection(connection)];
  let isStarted = false;
  try {
    const sandbox = await start.sandboxes.for(start, {
      environmentPaths: environment.readPaths,
      python: environment.python,
      supportPaths: packageDirs,
      socketsDir: connection.socketsDir,
      overlayDir,
    });
    undo.unshift(() => sandbox.dispose());
    const files = { journalFile: join(runDir, "journal"), heartbeatFile: join(runDir, "heartbeat") };
    undo.unshift(() => removeFiles(...Object.values(files), join(runDir, "kernel.log")));
    undo.unshift(await beat(files.heartbeatFile, log));
    const begun = await begin(start, { sandbox, connection, ...files });
    undo.unshift(async () => {
      await begun.life.kill("The start was aborted.");
      await begun.life.exited;
    });
    const channel = new ZmqChannel(connection);
    undo.unshift(() => channel.close());
    const readyOrEnded = Promise.race([ready(channel, signal), endedEarly(begun)]);
    await readyInTime(readyOrEnded, { ...start, who: "The kernel" });
    const info: KernelInfo = {
      provider: "local",
      language: "python",
      description: describe(environment),
      ...(sandbox.jail && { workingDir: sandbox.jail.workingDir }),
      layers: sandbox.phrases,
      notes: [...begun.notes, ...sandbox.notes],
    };
    const { life } = begun;
    const kernel = new JupyterKernel({
      info,
      channel,
      life,
      installer: start.installer,
      clientSession: connection.clientId,
      shownBy: (cellId) => shownBy(cellId, files.journalFile, connection.key),
      removeFiles: async () => {
        if (isStarted) await undoAll(undo, log);
      },
    });
    sandbox.watch(watched({ ...begun.record, ...files, connection }, kernel, life));
    await writeKernelRecord(runDir, { ...begun.record, connection, ...files, environment: environment.name, info });
    undo.unshift(() => removeKernelRecord(runDir));
    isStarted = true;
    return kernel;
  } catch (error) {
    await undoAll(undo, log);
    throw error;
  }
}

/** What to watch for limits besides the workspace: the sockets' folder, and the files that the kernel holds open. */
export function watched(
  record: Pick<KernelRecord, "process" | "jail" | "connection" | "journalFile" | "heartbeatFile">,
  kernel: JupyterKernel,
  life: KernelLife,
): WatchedKernel {
  return {
    // In a jail, orphaned processes become children of its first process.
    pid: record.jail?.pid ?? record.process.pid,
    folders: [record.connection.socketsDir],
    ownFiles: [
      { path: record.journalFile, usualBytes: USUAL_JOURNAL_BYTES },
      { path: record.heartbeatFile, usualBytes: 0 },
    ],
    isBusy: () => kernel.busy,
    kill: (reason) => void life.kill(reason),
  };
}

export async function removeFiles(...files: string[]): Promise<void> {
  for (const file of files) await rm(file, { force: true });
}

export function describe({ name, version }: Pick<PythonEnvironment, "name" | "version">): string {
  return `Python ${version} (${name})`;
}

async function begin(
  start: LocalStart,
  parts: { sandbox: KernelSandbox; connection: Connection; journalFile: string; heartbeatFile: string },
): Promise<Begun> {
  const { environment, signal, log, runDir } = start;
  const { sandbox, connection, ...files } = parts;
  const { jail, env, limits, causeOfDeath } = sandbox;
  const request = {
    connectionFile: connection.insideFile,
    workingDir: jail?.workingDir ?? start.workspaceDir,
    ttlSeconds: Math.ceil(Math.max(start.orphanTtlMs, SHORTEST_SILENCE_MS) / 1000),
    ...(start.overlayDir !== undefined && { overlayDir: jail ? seenAt(jail, start.overlayDir) : start.overlayDir }),
  };
  const process = { request, ...files, env, jail, limits };
  const logFile = join(runDir, "kernel.log");
  const { zygote, reason = "" } = start.coldReason
    ? { reason: start.coldReason }
    : await start.zygotes.get(environment);
  if (zygote) {
    try {
      const forked = await zygote.fork({ ...process, logFile, signal });
      return {
        life: lifeOf(forked, causeOfDeath),
        record: { process: { pid: forked.pid, start: forked.start }, zygoteSocket: zygote.socketFile },
        notes: [],
        lastWords: () => readFile(logFile, "utf8").catch(() => ""),
      };
    } catch (error) {
      signal.throwIfAborted();
      log.warn(`a kernel could not be forked: ${error instanceof Error ? error.message : error}`);
      return coldly(`the fork failed: ${error instanceof Error ? error.message : error}`);
    }
  }
  return coldly(reason);

  async function coldly(why: string): Promise<Begun> {
    const { startTimeoutMs } = start;
    const cold = await startCold({
      ...process,
      python: environment.python,
      startTimeoutMs,
      signal,
      log,
      causeOfDeath,
    });
    return { ...cold, notes: [`Cold start (slower): ${why}.`], lastWords: async () => cold.lastWords() };
  }
}

/** Rejects when the process ends, with the tail of its log. */
async function endedEarly({ life, lastWords }: Begun): Promise<never> {
  const { reason } = await life.exited;
  const words = (await lastWords()).trim().slice(-2_000);
  throw new CellwrightError("kernel_start_failed", `The kernel did not start: ${reason} ${words}`.trim());
}

export async function undoAll(undo: (() => unknown)[], log: Log): Promise<void> {
  for (const step of undo) {
    try {
      await step();
    } catch (error) {
      log.warn("something of a kernel stays behind", error);
    }
  }
}
