import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ExecutionEvent } from "../../../src/execution.ts";
import type { Jail } from "../../../src/isolation/jail.ts";
import { type KernelProcess, lifeOf } from "../../../src/kernels/local/kernel-process.ts";
import { openZygote, type ZygoteOptions } from "../../../src/kernels/local/zygote/start.ts";
import type { Zygote } from "../../../src/kernels/local/zygote/zygote.ts";
import { createConnection } from "../../../src/kernels/protocol/connection.ts";
import { JupyterKernel } from "../../../src/kernels/protocol/kernel.ts";
import { ready } from "../../../src/kernels/protocol/ready.ts";
import { ZmqChannel } from "../../../src/kernels/protocol/zmq.ts";
import { createLog } from "../../../src/log.ts";
import { testPython } from "../../support/pythons.ts";

/** What real zygotes import, if this Python has it. */
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
}

export interface ForkOptions {
  jail?: Jail;
  env?: Record<string, string>;
  ttlSeconds?: number;
  signal?: AbortSignal;
}

/**
 * A kernel in a separate folder below the given one, ready for a cell: for settings that no option has, such as a
 * heartbeat timeout of one second, or the environment of a single kernel.
 */
export async function forkKernel(zygote: Zygote, folder: string, options: ForkOptions = {}): Promise<ForkedKernel> {
  const runDir = mkdtempSync(join(folder, "run-"));
  mkdirSync(join(runDir, "workspace"));
  const connection = await createConnection(runDir);
  const forked = await zygote.fork({
    request: {
      connectionFile: connection.insideFile,
      workingDir: join(runDir, "workspace"),
      ttlSeconds: options.ttlSeconds ?? 600,
    },
    journalFile: join(runDir, "journal"),
    heartbeatFile: join(runDir, "heartbeat"),
    logFile: join(runDir, "log"),
    env: options.env ?? { PATH: "/usr/bin:/bin", HOME: runDir },
    jail: options.jail,
    signal: options.signal,
  });
  const channel = new ZmqChannel(connection);
  const died = forked.exited.then(() => {
    throw new Error(`The fork ended: ${readFileSync(join(runDir, "log"), "utf8")}`);
  });
  died.catch(() => {});
  await Promise.race([ready(channel, AbortSignal.timeout(120_000)), died]);
  const kernel = new JupyterKernel({ info, channel, life: lifeOf(forked), clientSession: connection.clientId });
  return { kernel, process: forked };
}

const info = { provider: "local", language: "python" as const, description: "Python", layers: [] };

/** The output of a cell as one text. */
export async function textOf(events: AsyncIterable<ExecutionEvent>): Promise<string> {
  let text = "";
  for await (const event of events) {
    if (event.type === "stream") text += event.text;
    else if (event.type === "result") text += event.data["text/plain"];
    else if (event.type === "error") text += `${event.name}: ${event.message}`;
  }
  return text;
}
