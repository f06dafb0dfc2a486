import { setTimeout as pause } from "node:timers/promises";
import { explainExit, type ProcessExit } from "../../isolation/exit.ts";
import { isAlive, type ProcessId } from "../../process/process-life.ts";
import type { KernelLife } from "../protocol/kernel.ts";

/** A kernel's process, which need not be a child of this one. */
export interface KernelProcess extends ProcessId {
  /** The first process of a jail that was started for the kernel: killing it kills all processes inside. */
  jail?: ProcessId | undefined;
  /** Resolves when the process is gone; without code and signal if unknown. Never rejects. */
  readonly exited: Promise<ProcessExit>;
}

/** Poll interval for a process whose exit is not reported. A poll costs about 0.1 ms. */
const LOOK_MS = 200;

/** Polls until a process that is not a child of this one is gone. */
export async function goneByLooking(id: ProcessId): Promise<ProcessExit> {
  while (await isAlive(id.pid, id.start)) await pause(LOOK_MS, undefined, { ref: false });
  return { code: null, signal: null };
}

/**
 * Controls a kernel's process, which leads a process group and gets interrupts itself. For a forked kernel in a jail
 * this is the jail's supervisor, which forwards interrupts; killing it kills the whole jail.
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
      // Already gone, or not a group leader.
    }
  }
}
