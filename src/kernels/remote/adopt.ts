import type { ExecutionEvent } from "../../execution.ts";
import type { Log } from "../../log.ts";
import type { AdoptedKernel } from "../kernel.ts";
import { eventOf, pageEvents } from "../protocol/events.ts";
import { JupyterKernel } from "../protocol/kernel.ts";
import type { NewestCell } from "./ledger.ts";
import { remoteLife } from "./life.ts";
import { type RemoteRecord, removeRemoteRecord } from "./record.ts";
import { RecoveringChannel } from "./recovery.ts";
import type { JupyterServer } from "./server/server.ts";
import type { WebSocketChannel } from "./server/socket.ts";

export interface RemoteAdoption {
  runDir: string;
  record: RemoteRecord;
  /** The recorded one. */
  server: JupyterServer;
  signal: AbortSignal;
  log: Log;
}

export interface AdoptedRemote extends AdoptedKernel {
  kernel: JupyterKernel;
}

/** A kernel that does not answer within this time is busy in native code; it is adopted without its newest cell. */
const ANSWER_MS = 5_000;

/** Adopts the kernel that an earlier process left on a server, if it still exists. */
export async function adoptRemote(adoption: RemoteAdoption): Promise<AdoptedRemote | undefined> {
  const { runDir, record, server, signal, log } = adoption;
  const socket = await connect(server, record, signal);
  if (!socket) return undefined;
  const { kernelId, clientSession, info } = record;
  const channel = new RecoveringChannel(socket, clientSession);
  const newest = await channel.newest(AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]));
  const kernel = new JupyterKernel({
    info,
    channel,
    life: remoteLife(server, { kernelId, channel, log }),
    clientSession,
    removeFiles: () => removeRemoteRecord(runDir, info.language),
  });
  const isGone = await Promise.race([channel.closed.then(() => true), false]);
  if (isGone) {
    await kernel.dispose();
    return undefined;
  }
  // A finished cell sends nothing more.
  if (!newest || newest.silent || newest.reply) channel.release();
  return {
    kernel,
    ...(newest && !newest.silent && { newestCell: { code: newest.code, events: eventsOf(newest, kernel, channel) } }),
  };
}

async function connect(
  server: JupyterServer,
  { kernelId, wsSession }: RemoteRecord,
  signal: AbortSignal,
): Promise<WebSocketChannel | undefined> {
  try {
    return await server.connect(kernelId, { wsSession, signal });
  } catch (error) {
    signal.throwIfAborted();
    server.log.debug(`a kernel of an earlier run was not adopted: ${error instanceof Error ? error.message : error}`);
    return undefined;
  }
}

const BEGINNING_LOST = "<The beginning of the output is lost: it was more than the kernel keeps.>\n";

async function* eventsOf(
  newest: NewestCell,
  kernel: JupyterKernel,
  channel: RecoveringChannel,
): AsyncGenerator<ExecutionEvent> {
  const before: ExecutionEvent[] = newest.messages.flatMap((message) => eventOf(message) ?? []);
  if (newest.dropped > 0) before.unshift({ type: "stream", name: "stderr", text: BEGINNING_LOST });
  if (newest.reply) {
    yield* before;
    yield* pageEvents(newest.reply);
    const failed = newest.reply.status !== "ok" || before.some(({ type }) => type === "error");
    const count = newest.reply.execution_count;
    yield { type: "done", status: failed ? "error" : "ok", executionCount: typeof count === "number" ? count : null };
    return;
  }
  const events = kernel.resume(newest.cell, before);
  try {
    // The first step starts listening.
    let step = events.next();
    channel.release({ id: newest.cell, seen: new Set(newest.messages.map(({ header }) => header.msg_id)) });
    for (let next = await step; !next.done; next = await step) {
      yield next.value;
      step = events.next();
    }
  } finally {
    await events.return();
  }
}
