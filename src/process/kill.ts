import type { ChildProcess } from "node:child_process";

/** Windows has no process groups. */
export const hasGroups = process.platform !== "win32";

/** Sends a signal to a process, or with a negative number to its group. Ignores one that is already gone. */
export function kill(pid: number, signal: NodeJS.Signals = "SIGKILL"): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Already gone.
  }
}

/** SIGKILL to a child that leads a process group, and to its whole group. */
export function killGroup(child: ChildProcess): void {
  const { pid, exitCode, signalCode } = child;
  if (pid === undefined || exitCode !== null || signalCode !== null) return;
  kill(hasGroups ? -pid : pid);
}
