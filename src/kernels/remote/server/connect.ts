import { ready } from "../../protocol/ready.ts";
import type { JupyterServer } from "./server.ts";
import type { WebSocketChannel } from "./socket.ts";

const FIRST_ATTEMPT_MS = 5_000;

export interface NewConnection {
  wsSession: string;
  signal: AbortSignal;
  /** Timeout of the first attempt; it doubles with each further one, until `signal` aborts them all. */
  firstAttemptMs?: number;
}

/**
 * Connects to a new kernel, and waits until it answers. A kernel that dies during its start is restarted by its server
 * on other ports, and the server may keep the connection on the old ports, where nothing answers. Reconnecting finds
 * the new ports, and is harmless if the kernel is only slow.
 */
export async function connectNew(
  server: JupyterServer,
  kernelId: string,
  { wsSession, signal, firstAttemptMs = FIRST_ATTEMPT_MS }: NewConnection,
): Promise<WebSocketChannel> {
  for (let attemptMs = firstAttemptMs; ; attemptMs *= 2) {
    const late = AbortSignal.timeout(attemptMs);
    const either = AbortSignal.any([signal, late]);
    let channel: WebSocketChannel | undefined;
    try {
      channel = await server.connect(kernelId, { wsSession, signal: either });
      await ready(channel, either);
      return channel;
    } catch (error) {
      await channel?.close();
      signal.throwIfAborted();
      if (!late.aborted) throw error;
    }
  }
}
