import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { CellwrightError } from "../../../errors.ts";
import type { Language } from "../../../execution.ts";
import type { Log } from "../../../log.ts";
import type { KernelInfo, StartOptions } from "../../kernel.ts";
import { JupyterKernel } from "../kernel.ts";
import { type About, bootKernel } from "./boot.ts";
import { connectNew } from "./connect.ts";
import { remoteLife } from "./life.ts";
import { removeRemoteRecord, writeRemoteRecord } from "./record.ts";
import { RecoveringChannel } from "./recovery.ts";
import type { JupyterServer } from "./server.ts";
import type { WebSocketChannel } from "./socket.ts";

export interface RemoteStart extends Pick<StartOptions, "runDir" | "signal"> {
  server: JupyterServer;
  language: Language;
  /** The session's folder on the server: absolute, or from its user's home. */
  workingDir: string;
  startTimeoutMs: number;
  /** Told of the kernel's id as soon as there is one; the start waits for it, but does not fail with it. */
  onCreated?: ((kernelId: string) => Promise<void>) | undefined;
  log: Log;
}

export const NO_WALLS =
  "Code runs as the user of the Jupyter server, with all that this user may do there: no walls of ours stand around it.";

/** Starts a kernel on a Jupyter server. Whatever ends the start early leaves nothing behind. */
export function startRemote(start: RemoteStart): Promise<JupyterKernel> {
  return withKernel(start, async (begun) => {
    const { about, channel, kernelId } = begun;
    const name = start.language === "bash" ? `bash ${about.shell}` : `Python ${about.version}`;
    const info: KernelInfo = {
      provider: "jupyter",
      language: start.language,
      description: `${name} (Jupyter server ${start.server.name})`,
      walls: [],
      workingDir: about.workingDir,
      notes: [NO_WALLS],
    };
    const recovering = new RecoveringChannel(channel, begun.clientSession);
    const kernel = new JupyterKernel({
      info,
      channel: recovering,
      life: remoteLife(start.server, { kernelId, channel: recovering, log: start.log }),
      clientSession: begun.clientSession,
      afterwards: () => removeRemoteRecord(start.runDir, info.language),
    });
    await begun.record(info);
    return kernel;
  });
}

/** A kernel of the server that has become one of ours. */
export interface BegunKernel {
  kernelId: string;
  about: About;
  channel: WebSocketChannel;
  clientSession: string;
  /** Writes down what a later run of the program needs to take it over. */
  record(info: KernelInfo): Promise<void>;
}

/** What `use` makes of a new kernel; the kernel is deleted when it fails. */
export async function withKernel<T>(start: RemoteStart, use: (begun: BegunKernel) => Promise<T>): Promise<T> {
  const { server, runDir, startTimeoutMs } = start;
  const late = AbortSignal.timeout(startTimeoutMs);
  const signal = AbortSignal.any([start.signal, late]);
  let kernelId: string | undefined;
  let channel: WebSocketChannel | undefined;
  try {
    signal.throwIfAborted();
    kernelId = await server.createKernel(signal);
    const noted = start.onCreated?.(kernelId).catch((error) => {
      start.log.warn(`${server.name} cannot be told who uses it`, error);
    });
    const [wsSession, clientSession] = [randomUUID(), randomUUID()];
    channel = await connectNew(server, kernelId, { wsSession, signal });
    const { workingDir, language } = start;
    const about = await bootKernel(channel, { request: { workingDir, language }, clientSession, signal });
    await noted;
    const place = { url: server.url, kernelId, wsSession, clientSession };
    const record = async (info: KernelInfo): Promise<void> => {
      await mkdir(runDir, { recursive: true, mode: 0o700 });
      await writeRemoteRecord(runDir, { ...place, info });
    };
    return await use({ kernelId, about, channel, clientSession, record });
  } catch (error) {
    await channel?.close();
    if (kernelId !== undefined) await remoteLife(server, { kernelId, log: start.log }).kill("The start was given up.");
    start.signal.throwIfAborted();
    if (!late.aborted) throw error;
    const message = `A kernel of the Jupyter server at ${server.url} was not ready after ${startTimeoutMs / 1000} s.`;
    throw new CellwrightError("kernel_start_timeout", message);
  }
}
