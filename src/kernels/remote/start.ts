import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { CellwrightError } from "../../errors.ts";
import type { Language } from "../../execution.ts";
import type { Log } from "../../log.ts";
import type { KernelInfo, StartOptions } from "../kernel.ts";
import { JupyterKernel } from "../protocol/kernel.ts";
import { type About, bootKernel } from "./boot.ts";
import { remoteLife } from "./life.ts";
import { removeRemoteRecord, writeRemoteRecord } from "./record.ts";
import { RecoveringChannel } from "./recovery.ts";
import { connectNew } from "./server/connect.ts";
import type { JupyterServer } from "./server/server.ts";
import type { WebSocketChannel } from "./server/socket.ts";

export interface RemoteStart extends Pick<StartOptions, "runDir" | "signal"> {
  server: JupyterServer;
  language: Language;
  /** The session's folder on the server: absolute, or relative to its user's home. */
  workingDir: string;
  startTimeoutMs: number;
  /** Called with the kernel's id as soon as it is known. The start waits for it, but ignores its failure. */
  onCreated?: ((kernelId: string) => Promise<void>) | undefined;
  log: Log;
}

export const NOT_SANDBOXED =
  "Code runs as the user of the Jupyter server, with all of this user's rights: Cellwright does not sandbox it.";

/** Starts a kernel on a Jupyter server. A failed start leaves nothing behind. */
export async function startRemote(start: RemoteStart): Promise<JupyterKernel> {
  const { server, language, workingDir, runDir, startTimeoutMs, log } = start;
  const late = AbortSignal.timeout(startTimeoutMs);
  const signal = AbortSignal.any([start.signal, late]);
  let kernelId: string | undefined;
  let channel: WebSocketChannel | undefined;
  try {
    signal.throwIfAborted();
    kernelId = await server.createKernel(signal);
    const noted = start.onCreated?.(kernelId).catch((error) => {
      log.warn(`${server.name}: cannot register this Cellwright there`, error);
    });
    const [wsSession, clientSession] = [randomUUID(), randomUUID()];
    channel = await connectNew(server, kernelId, { wsSession, signal });
    const about = await bootKernel(channel, { request: { workingDir, language }, clientSession, signal });
    // Immediately, before the next await: it must notice if the server replaces the kernel.
    const recovering = new RecoveringChannel(channel, clientSession);
    const info = infoOf(start, about);
    const kernel = new JupyterKernel({
      info,
      channel: recovering,
      life: remoteLife(server, { kernelId, channel: recovering, log }),
      clientSession,
      removeFiles: () => removeRemoteRecord(runDir, language),
    });
    await noted;
    await mkdir(runDir, { recursive: true, mode: 0o700 });
    await writeRemoteRecord(runDir, { url: server.url, kernelId, wsSession, clientSession, info });
    return kernel;
  } catch (error) {
    await channel?.close();
    if (kernelId !== undefined) await remoteLife(server, { kernelId, log }).kill("The start was aborted.");
    start.signal.throwIfAborted();
    if (!late.aborted) throw error;
    const message = `A kernel of the Jupyter server at ${server.url} was not ready after ${startTimeoutMs / 1000} s.`;
    throw new CellwrightError("kernel_start_timeout", message);
  }
}

function infoOf({ language, server }: RemoteStart, about: About): KernelInfo {
  const name = language === "bash" ? `bash ${about.shell}` : `Python ${about.version}`;
  return {
    provider: "jupyter",
    language,
    description: `${name} (Jupyter server ${server.name})`,
    layers: [],
    workingDir: about.workingDir,
    notes: [NOT_SANDBOXED],
  };
}
