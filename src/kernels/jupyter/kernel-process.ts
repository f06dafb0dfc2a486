import { setTimeout as pause } from "node:timers/promises";
import { explainExit, type ProcessExit } from "../../jail/exit.ts";
import { isAlive } from "../../process-life.ts";
import type { KernelLife } from "./kernel.ts";

/** A process beyond doubt: a number that is given out again has another start. */
export interface ProcessId {
  pid: number;
  /** As `startOf` tells it; absent where the system does not tell. */
  start?: string | undefined;
}

/** A kernel's process, which need not be a child of ours. */
export interface KernelProcess extends ProcessId {
  /** The first process of a jail that was started for the kernel: all that is inside ends with it. */
  jail?: ProcessId | undefined;
  /** Resolves when it is gone; with neither code nor signal when nobody could tell how it ended. Never rejects. */
  readonly exited: Promise<ProcessExit>;
}

/** How often a process is looked for that nobody tells us about. A look costs some 0.1 ms. */
const LOOK_MS = 200;

/** Resolves when a process that is not our child has gone. */
export async function goneByLooking(id: ProcessId): Promise<ProcessExit> {
  while (await isAlive(id.pid, id.start)) await pause(LOOK_MS, undefined, { ref: false });
  return { code: null, signal: null };
}

/**
 * What a kernel does with its process. That leads a process group and is told of interrupts itself; a forked jail's
 * supervisor, which stands for its kernel here, passes them on and takes all that is inside with it.
 */
export function lifeOf(process: KernelProcess, causeOfDeath?: (exit: ProcessExit) => Promise<string>): KernelLife {
  let killedBecause: string | undefined;
  const explain = causeOfDeath ?? (async (exit) => explainExit(exit));
  return {
    interrupt: () => send(process, "SIGINT"),
    kill: async (reason) => {
      killedBecause ??= reason;
      await send(process.jail ?? process, "SIGKILL", { group: true });
    },
    exited: process.exited.then(async (exit) => ({ reason: killedBecause ?? (await explain(exit)) })),
  };
}

async function send({ pid, start }: ProcessId, signal: NodeJS.Signals, { group = false } = {}): Promise<void> {
  if (!(await isAlive(pid, start))) return;
  for (const target of group ? [-pid, pid] : [pid]) {
    try {
      process.kill(target, signal);
    } catch {
      // It has gone meanwhile, or leads no group.
    }
  }
}
