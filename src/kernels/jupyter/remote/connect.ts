import { ready } from "../ready.ts";
import type { JupyterServer } from "./server.ts";
import type { WebSocketChannel } from "./socket.ts";

const FIRST_ATTEMPT_MS = 5_000;

export interface NewConnection {
  wsSession: string;
  signal: AbortSignal;
  /** How long the first attempt may take; each further one has twice as long, until `signal` ends them all. */
  firstAttemptMs?: number;
}

/**
 * Connects with a kernel that has just been started, and waits until it answers. A kernel that dies in its first moments
 * is restarted by its server on other ports, and the server may keep us connected with the old ones, where nobody answers.
 * Connecting again finds the new ones; to a kernel that is only slow it does no harm.
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
