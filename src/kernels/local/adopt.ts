import { setTimeout as delay } from "node:timers/promises";
import type { ExecutionEvent } from "../../execution.ts";
import { isAlive } from "../../process/process-life.ts";
import type { AdoptedKernel, StartOptions } from "../kernel.ts";
import { removeConnection } from "../protocol/connection.ts";
import { JupyterKernel } from "../protocol/kernel.ts";
import { messagesOf, type NewestCell, readNewestCell, shownBy } from "../protocol/newest-cell.ts";
import { ZmqChannel } from "../protocol/zmq.ts";
import { AdoptedChannel } from "./adopted-channel.ts";
import { beat } from "./heartbeat.ts";
import { goneByLooking, type KernelProcess, lifeOf } from "./kernel-process.ts";
import { type KernelRecord, readKernelRecord, removeKernelRecord } from "./kernel-record.ts";
import { type LocalStart, removeFiles, undoAll, watched } from "./start.ts";
import type { Zygotes } from "./zygote/zygotes.ts";

/** A kernel that takes longer to answer is busy in native code, or the machine is: its output is completed later. */
const ATTACH_MS = 3_000;

/** Adopts the orphaned kernel of a session's run folder, if it is still alive. */
export async function adoptLocal(
  slot: StartOptions,
  { sandboxes, zygotes, installer, log }: Pick<LocalStart, "sandboxes" | "zygotes" | "installer" | "log">,
): Promise<AdoptedKernel | undefined> {
  const { runDir } = slot;
  const limits = await sandboxes.limitsOf(slot);
  const record = await readKernelRecord(runDir);
  if (!record || !(await isAlive(record.process.pid, record.process.start))) {
    await limits.dispose();
    return undefined;
  }
  const { connection, info, journalFile, heartbeatFile } = record;
  const life = lifeOf(await processOf(record, zygotes), limits.causeOfDeath);
  const channel = new AdoptedChannel(new ZmqChannel(connection), connection.clientId);
  const attached = channel.attach();
  const isAttached = await Promise.race([attached.then(() => true), delay(ATTACH_MS, false, { ref: false })]);
  // Read after attaching: output from now on also arrives through the channel.
  const cell = await readNewestCell(journalFile, connection.key);
  const later = () => attached.then(() => messagesOf(cell?.id, journalFile, connection.key));
  if (cell && !cell.over) await channel.continue(cell, isAttached ? undefined : later());
  const undo = [
    () => removeKernelRecord(runDir),
    await beat(heartbeatFile, log),
    () => removeFiles(journalFile, heartbeatFile),
    () => limits.dispose(),
    () => removeConnection(connection),
  ];
  const kernel = new JupyterKernel({
    ...{ info, channel, life, installer },
    clientSession: connection.clientId,
    shownBy: (cellId) => shownBy(cellId, journalFile, connection.key),
    removeFiles: () => undoAll(undo, log),
  });
  limits.watch(watched(record, kernel, life));
  return { kernel, newestCell: cell && { code: cell.code, events: eventsOf(cell, kernel, channel) } };
}

async function processOf({ process, jail, zygoteSocket }: KernelRecord, zygotes: Zygotes): Promise<KernelProcess> {
  const zygote = zygoteSocket === undefined ? undefined : await zygotes.at(zygoteSocket);
  return zygote ? zygote.watch(process) : { ...process, jail, exited: goneByLooking(process) };
}

async function* eventsOf(
  cell: NewestCell,
  kernel: JupyterKernel,
  channel: AdoptedChannel,
): AsyncGenerator<ExecutionEvent> {
  if (cell.over) {
    yield* cell.events;
    yield { type: "done", status: cell.failed ? "error" : "ok", executionCount: cell.executionCount };
    return;
  }
  const events = kernel.resume(cell.id, cell.events);
  try {
    // The first step starts listening.
    let step = events.next();
    channel.release();
    for (let next = await step; !next.done; next = await step) {
      yield next.value;
      step = events.next();
    }
  } finally {
    await events.return();
  }
}
