import type { ExecutionEvent } from "../../execution.ts";
import type { ProcessExit } from "../../jail/exit.ts";
import { isAlive } from "../../process-life.ts";
import type { AdoptedKernel } from "../kernel.ts";
import { AdoptedChannel } from "./adopted-channel.ts";
import { JupyterKernel, type JupyterKernelParts, type KernelLife } from "./kernel.ts";
import { goneByLooking, type KernelProcess, lifeOf } from "./kernel-process.ts";
import { type KernelRecord, readKernelRecord } from "./kernel-record.ts";
import { type NewestCell, readNewestCell, shownBy } from "./newest-cell.ts";
import { connectZmq } from "./zmq.ts";
import type { Zygote } from "./zygote.ts";

export interface AdoptOptions {
  /** The zygote behind a socket, if it is there; it is left open. */
  zygoteAt: (socketFile: string) => Promise<Zygote | undefined>;
  installer?: JupyterKernelParts["installer"];
  afterwards?: JupyterKernelParts["afterwards"];
  causeOfDeath?: (exit: ProcessExit) => Promise<string>;
}

/** With what was known of the kernel when it was started. */
export interface Adoption extends AdoptedKernel {
  kernel: JupyterKernel;
  life: KernelLife;
  record: KernelRecord;
  process: KernelProcess;
}

/** A kernel that does not answer in so long is busy in native code; it is taken over all the same. */
const ATTACH_MS = 3_000;

/** Takes over the kernel that an earlier run of this program left in a session's run folder, if it is still there. */
export async function adopt(runDir: string, options: AdoptOptions): Promise<Adoption | undefined> {
  const record = await readKernelRecord(runDir);
  if (!record || !(await isAlive(record.process.pid, record.process.start))) return undefined;
  const process = await watch(record, options);
  const life = lifeOf(process, options.causeOfDeath);
  const { connection, info } = record;
  const channel = new AdoptedChannel(await connectZmq(connection), connection.clientId);
  await channel.attach(AbortSignal.timeout(ATTACH_MS));
  // Only now: what is shown from here on comes to us as well.
  const cell = await readNewestCell(record.journalFile, connection.key);
  if (cell && !cell.over) await channel.continue(cell);
  const { installer, afterwards } = options;
  const kernel = new JupyterKernel({
    ...{ info, channel, life, installer, afterwards },
    clientSession: connection.clientId,
    shownBy: (cellId) => shownBy(cellId, record.journalFile, connection.key),
  });
  return {
    kernel,
    life,
    record,
    process,
    newestCell: cell && { code: cell.code, events: eventsOf(cell, kernel, channel) },
  };
}

async function watch(record: KernelRecord, { zygoteAt }: AdoptOptions): Promise<KernelProcess> {
  const { process, jail, zygoteSocket } = record;
  const zygote = zygoteSocket === undefined ? undefined : await zygoteAt(zygoteSocket);
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
    // From its first step on it listens.
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
