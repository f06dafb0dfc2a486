/**
 * Longest the program takes to leave once it is told to. Kernels have their own, shorter, time to stop; this is for the
 * one that hangs, since a client that is gone cannot kill us.
 */
const EXIT_BACKSTOP_MS = 15_000;

/** Resolves with the reason when the program is asked to end; a second signal ends it at once. */
export function shutdownSignal(): Promise<string> {
  return new Promise((resolve) => {
    for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      let asked = false;
      process.on(name, () => {
        if (asked) process.exit(1);
        asked = true;
        resolve(name);
      });
    }
    // Where a program of ours has started this one, it is not to outlive that.
    process.once("disconnect", () => resolve("its supervisor is gone"));
  });
}

/** Ends the program's parts in order, or the program itself when that takes too long. */
export async function shutDown(...parts: (() => Promise<void>)[]): Promise<void> {
  setTimeout(() => process.exit(1), EXIT_BACKSTOP_MS).unref();
  for (const end of parts) await end();
}
