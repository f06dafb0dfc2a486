import { signalName } from "../process/signal-name.ts";

/** How a process ended, in the form of `child_process`. */
export interface ProcessExit {
  code: number | null;
  signal: string | null;
}

/** Decodes a status of wait(2), as a zygote reports it. */
export function fromWaitStatus(status: number): ProcessExit {
  const signal = status & 0x7f;
  if (signal === 0) return { code: (status >> 8) & 0xff, signal: null };
  return { code: null, signal: signalName(signal) ?? `signal ${signal}` };
}

/** Jails and shells report a signal as exit code 128 + n. */
export function decodeSignalExit(exit: ProcessExit): ProcessExit {
  const signal = exit.code === null ? undefined : signalName(exit.code - 128);
  return signal === undefined ? exit : { code: null, signal };
}

/** Why a kernel is gone, as a sentence. */
export function explainExit(exit: ProcessExit, memory?: { limitMb: number }): string {
  const { code, signal } = decodeSignalExit(exit);
  if (signal === "SIGKILL" && memory) {
    return `The kernel ran out of memory: its processes together used more than the limit of ${memory.limitMb} MB.`;
  }
  if (signal === "SIGXFSZ") return "The kernel was ended because a file grew beyond the limit (SIGXFSZ).";
  if (signal) return `The kernel was killed by ${signal}.`;
  return code === null ? "The kernel is gone." : `The kernel exited with code ${code}.`;
}
