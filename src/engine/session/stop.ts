/** Why a cell was stopped. The first reason wins. */
export type StopReason = "timeout" | "cancelled" | "interrupted" | "reset" | "closed" | "shutdown";

/** Grace period between interrupt and kill. Long enough for a `finally`. */
export const STOP_GRACE_MS = 2_000;

export const FRESH_KERNEL_NEXT =
  "Its state was lost: variables are gone, files are kept. The next cell gets a fresh kernel.";
export const FRESH_KERNEL_NOW =
  "This cell ran in a fresh kernel: variables from before are gone, files and history are kept.";

export function stopStatus(reason: StopReason): "timeout" | "interrupted" {
  return reason === "timeout" ? "timeout" : "interrupted";
}

/** The notice of a stopped cell: why it was stopped, and exactly what was lost. */
export function stopNotice(reason: StopReason, { lost, timeoutMs }: { lost: boolean; timeoutMs: number }): string {
  const why = {
    timeout: `The cell ran longer than ${timeoutMs / 1000} s and was stopped`,
    cancelled: "The call was cancelled and the cell stopped",
    interrupted: "The cell was interrupted",
    reset: "The session was reset while the cell ran",
    closed: "The session was closed while the cell ran",
    shutdown: "Cellwright was shut down while the cell ran",
  }[reason];
  if (reason === "reset" || reason === "closed" || reason === "shutdown") {
    return `${why}: its variables are gone, files are kept.`;
  }
  if (!lost) return `${why}; variables are kept.`;
  return `${why}. It ignored the interrupt, so its kernel was killed. ${FRESH_KERNEL_NEXT}`;
}
