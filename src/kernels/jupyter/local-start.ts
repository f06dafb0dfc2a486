import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { CellwrightError } from "../../errors.ts";
import { seenAt } from "../../jail/jail.ts";
import { SOCKETS_DIR } from "../../jail/local-jail.ts";
import type { KernelWalls, Walls, WatchedKernel } from "../../jail/walls.ts";
import type { Log } from "../../log.ts";
import type { KernelInfo, StartOptions } from "../kernel.ts";
import { readyInTime } from "../starting.ts";
import { type Adoption, adopt } from "./adopt.ts";
import { hostDir, preludeDir, startCold } from "./cold.ts";
import { type Connection, createConnection, removeConnection } from "./connection.ts";
import type { PythonEnvironment } from "./environments/environment.ts";
import { beat, SHORTEST_SILENCE_MS } from "./heartbeat.ts";
import { JupyterKernel, type JupyterKernelParts, type KernelLife, ready } from "./kernel.ts";
import { lifeOf } from "./kernel-process.ts";
import { type KernelRecord, removeKernelRecord, writeKernelRecord } from "./kernel-record.ts";
import { shownBy } from "./newest-cell.ts";
import { connectZmq } from "./zmq.ts";
import type { Zygotes } from "./zygotes.ts";

export interface LocalStart extends StartOptions {
  environment: PythonEnvironment;
  walls: Walls;
  zygotes: Zygotes;
  /** How long the kernel lives on when this process is gone. */
  orphanTtlMs: number;
  startTimeoutMs: number;
  /** The session's own packages. */
  overlayDir?: string | undefined;
  /** Why it must not be forked. */
  coldReason?: string | undefined;
  installer?: JupyterKernelParts["installer"];
  log: Log;
}

/** See host/journal.py: earlier cells, one that showed all it may, and some to spare. */
const USUAL_JOURNAL_BYTES = 72 * 1024 * 1024;

/** Forked from a zygote or started from nothing, a process that is about to be a kernel. */
interface Begun {
  life: KernelLife;
  record: Pick<KernelRecord, "process" | "jail" | "zygoteSocket">;
  notes: string[];
  lastWords(): Promise<string>;
}

/** Starts one kernel. Whatever ends the start early leaves no process, no socket and no file. */
export async function startLocal(start: LocalStart): Promise<JupyterKernel> {
  const { environment, runDir, signal, log, overlayDir } = start;
  signal.throwIfAborted();
  const isApart = (await start.walls.isolation())?.tier === "namespaces";
  const connection = await createConnection(runDir, isApart ? { insideDir: SOCKETS_DIR } : {});
  const undo: (() => unknown)[] = [() => removeConnection(connection)];
  let isStarted = false;
  try {
    const walls = await start.walls.for(start, {
      environmentPaths: environment.readPaths,
      python: environment.python,
      supportPaths: [hostDir, preludeDir],
      socketsDir: connection.socketsDir,
      overlayDir,
    });
    undo.unshift(() => walls.dispose());
    const files = { journalFile: join(runDir, "journal"), heartbeatFile: join(runDir, "heartbeat") };
    undo.unshift(() => removeFiles(...Object.values(files), join(runDir, "kernel.log")));
    undo.unshift(await beat(files.heartbeatFile, log));
    const begun = await begin(start, { walls, connection, ...files });
    undo.unshift(async () => {
      await begun.life.kill("The start was given up.");
      await begun.life.exited;
    });
    const channel = await connectZmq(connection);
    undo.unshift(() => channel.close());
    const readyOrEnded = Promise.race([ready(channel, signal), endedEarly(begun)]);
    await readyInTime(readyOrEnded, { ...start, who: "The kernel" });
    const info: KernelInfo = {
      provider: "local",
      language: "python",
      description: describe(environment),
      ...(walls.jail && { workingDir: walls.jail.workingDir }),
      walls: walls.phrases,
      notes: [...begun.notes, ...walls.notes],
    };
    const { life } = begun;
    const kernel = new JupyterKernel({
      info,
      channel,
      life,
      installer: start.installer,
      clientSession: connection.clientId,
      shownBy: (cellId) => shownBy(cellId, files.journalFile, connection.key),
      afterwards: async () => {
        if (isStarted) await undoAll(undo, log);
      },
    });
    walls.watch(watched({ ...begun.record, ...files, connection }, kernel, life));
    await writeKernelRecord(runDir, { ...begun.record, connection, ...files, environment: environment.name, info });
    undo.unshift(() => removeKernelRecord(runDir));
    isStarted = true;
    return kernel;
  } catch (error) {
    await undoAll(undo, log);
    throw error;
  }
}

/** Takes over a kernel that an earlier run of the program left behind, with all that belongs to it. */
export async function adoptLocal(
  slot: StartOptions,
  { walls, zygotes, installer, log }: Pick<LocalStart, "walls" | "zygotes" | "installer" | "log">,
): Promise<Adoption | undefined> {
  const { runDir } = slot;
  const limits = await walls.limitsOf(slot);
  const { causeOfDeath } = limits;
  const undo: (() => unknown)[] = [];
  const afterwards = () => undoAll(undo, log);
  const zygoteAt = (socket: string) => zygotes.at(socket);
  const adopted = await adopt(runDir, { zygoteAt, installer, causeOfDeath, afterwards });
  if (!adopted) {
    await limits.dispose();
    return undefined;
  }
  const { kernel, life, record } = adopted;
  const { journalFile, heartbeatFile, connection } = record;
  const stopBeating = await beat(heartbeatFile, log);
  limits.watch(watched(record, kernel, life));
  undo.push(
    () => removeKernelRecord(runDir),
    stopBeating,
    () => removeFiles(journalFile, heartbeatFile),
    () => limits.dispose(),
    () => removeConnection(connection),
  );
  return adopted;
}

/** What the kernel can write to beside its workspace: its sockets' folder, and the files that it holds open. */
function watched(
  record: Pick<KernelRecord, "process" | "jail" | "connection" | "journalFile" | "heartbeatFile">,
  kernel: JupyterKernel,
  life: KernelLife,
): WatchedKernel {
  return {
    // In a jail, what loses its parent becomes its first process's.
    pid: record.jail?.pid ?? record.process.pid,
    folders: [record.connection.socketsDir],
    ownFiles: [
      { path: record.journalFile, usualBytes: USUAL_JOURNAL_BYTES },
      { path: record.heartbeatFile, usualBytes: 0 },
    ],
    isBusy: () => kernel.busy,
    condemn: (reason) => void life.kill(reason),
  };
}

async function removeFiles(...files: string[]): Promise<void> {
  for (const file of files) await rm(file, { force: true });
}

export function describe({ name, version }: Pick<PythonEnvironment, "name" | "version">): string {
  return `Python ${version} (${name})`;
}

async function begin(
  start: LocalStart,
  parts: { walls: KernelWalls; connection: Connection; journalFile: string; heartbeatFile: string },
): Promise<Begun> {
  const { environment, signal, log, runDir } = start;
  const { walls, connection, journalFile, heartbeatFile } = parts;
  const { jail, env, limits, causeOfDeath } = walls;
  const request = {
    connectionFile: connection.insideFile,
    workingDir: jail?.workingDir ?? start.workspaceDir,
    ttlSeconds: Math.ceil(Math.max(start.orphanTtlMs, SHORTEST_SILENCE_MS) / 1000),
    ...(start.overlayDir !== undefined && { overlayDir: jail ? seenAt(jail, start.overlayDir) : start.overlayDir }),
  };
  const logFile = join(runDir, "kernel.log");
  const { zygote, reason = "" } = start.coldReason
    ? { reason: start.coldReason }
    : await start.zygotes.get(environment);
  if (zygote) {
    try {
      const {
        pid,
        start: since,
        exited,
      } = await zygote.fork({
        request,
        journalFile,
        heartbeatFile,
        logFile,
        env,
        jail,
        limits,
        signal,
      });
      const process = { pid, start: since };
      return {
        life: lifeOf({ ...process, exited }, causeOfDeath),
        record: { process, zygoteSocket: zygote.socketFile },
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
    const { python } = environment;
    const cold = startCold({ python, request, journalFile, heartbeatFile, env, jail, limits, log, causeOfDeath });
    return {
      life: cold.life,
      record: await cold.record(),
      notes: [`Started from nothing, which takes longer: ${why}.`],
      lastWords: async () => cold.lastWords(),
    };
  }
}

/** Rejects, with its last words, when it ends. */
async function endedEarly({ life, lastWords }: Begun): Promise<never> {
  const { reason } = await life.exited;
  const words = (await lastWords()).trim().slice(-2_000);
  throw new CellwrightError("kernel_start_failed", `The kernel did not start: ${reason} ${words}`.trim());
}

async function undoAll(undo: (() => unknown)[], log: Log): Promise<void> {
  for (const step of undo) {
    try {
      await step();
    } catch (error) {
      log.warn("something of a kernel stays behind", error);
    }
  }
}
