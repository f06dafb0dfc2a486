import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ExecutionEvent } from "../../../src/execution.ts";
import type { Jail } from "../../../src/jail/jail.ts";
import { type Connection, createConnection } from "../../../src/kernels/jupyter/connection.ts";
import { JupyterKernel, ready } from "../../../src/kernels/jupyter/kernel.ts";
import { type KernelProcess, lifeOf } from "../../../src/kernels/jupyter/kernel-process.ts";
import { type KernelRecord, writeKernelRecord } from "../../../src/kernels/jupyter/kernel-record.ts";
import { connectZmq } from "../../../src/kernels/jupyter/zmq.ts";
import type { Zygote } from "../../../src/kernels/jupyter/zygote.ts";
import { openZygote, type ZygoteOptions } from "../../../src/kernels/jupyter/zygote-start.ts";
import { createLog } from "../../../src/log.ts";
import { testPython } from "../../support/pythons.ts";

/** What real zygotes import, as far as each Python has it. */
export const scientific = ["numpy", "pandas", "matplotlib.pyplot"];

export function temporaryFolder(atEnd: (cleanUp: () => void) => void): string {
  const folder = mkdtempSync(join(tmpdir(), "cw-zygote-"));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function openTestZygote(stateDir: string, options: Partial<ZygoteOptions> = {}): Promise<Zygote> {
  return openZygote({ python: testPython("managed"), stateDir, preload: [], log: createLog("error"), ...options });
}

export interface ForkedKernel {
  kernel: JupyterKernel;
  process: KernelProcess;
  connection: Connection;
  runDir: string;
}

export interface ForkOptions {
  /** Where the jail shows the sockets. */
  insideDir?: string;
  jail?: (connection: Connection) => Promise<Jail>;
  env?: Record<string, string>;
  ttlSeconds?: number;
  threads?: number;
  signal?: AbortSignal;
}

/** A kernel in a folder of its own below the given one, ready for a cell. */
export async function forkKernel(zygote: Zygote, folder: string, options: ForkOptions = {}): Promise<ForkedKernel> {
  const runDir = mkdtempSync(join(folder, "run-"));
  mkdirSync(join(runDir, "workspace"));
  const connection = await createConnection(runDir, { insideDir: options.insideDir });
  const jail = await options.jail?.(connection);
  const forked = await zygote.fork({
    request: {
      connectionFile: connection.insideFile,
      workingDir: jail?.workingDir ?? join(runDir, "workspace"),
      ttlSeconds: options.ttlSeconds ?? 600,
    },
    ...filesIn(runDir),
    logFile: join(runDir, "log"),
    env: options.env ?? { PATH: "/usr/bin:/bin", HOME: runDir },
    jail,
    threads: options.threads,
    signal: options.signal,
  });
  const channel = await connectZmq(connection);
  const died = forked.exited.then(() => {
    throw new Error(`The fork ended: ${readFileSync(join(runDir, "log"), "utf8")}`);
  });
  died.catch(() => {});
  await Promise.race([ready(channel, AbortSignal.timeout(60_000)), died]);
  const kernel = new JupyterKernel({ info, channel, life: lifeOf(forked), clientSession: connection.clientId });
  return { kernel, process: forked, connection, runDir };
}

/** What a server writes down once the kernel is ready. */
export function writeRecord(zygote: Zygote, { process, connection, runDir }: ForkedKernel): Promise<void> {
  const { pid, start } = process;
  const record: KernelRecord = {
    process: { pid, start },
    zygoteSocket: zygote.socketFile,
    connection,
    ...filesIn(runDir),
    environment: "managed",
    info,
  };
  return writeKernelRecord(runDir, record);
}

const info = { provider: "local", language: "python" as const, description: "Python", walls: [] };

function filesIn(runDir: string): { journalFile: string; heartbeatFile: string } {
  return { journalFile: join(runDir, "journal"), heartbeatFile: join(runDir, "heartbeat") };
}

/** What a cell showed, as one text. */
export async function textOf(events: AsyncIterable<ExecutionEvent>): Promise<string> {
  let text = "";
  for await (const event of events) {
    if (event.type === "stream") text += event.text;
    else if (event.type === "result") text += event.data["text/plain"];
    else if (event.type === "error") text += `${event.name}: ${event.message}`;
  }
  return text;
}
