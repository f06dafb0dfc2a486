/**
 * Upper bound of a shutdown. Kernels have their own, shorter, grace period; this is for one that hangs, since a client
 * that is gone cannot kill the server.
 */
const EXIT_BACKSTOP_MS = 15_000;

/** Resolves with the reason for a shutdown; a second signal exits at once. */
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
    // A sandbox of `cellwright pool` must not outlive its supervisor.
    process.once("disconnect", () => resolve("the supervisor is gone"));
  });
}

/** Disposes the parts in order; exits if that takes too long. */
export async function shutDown(...parts: (() => Promise<void>)[]): Promise<void> {
  setTimeout(() => process.exit(1), EXIT_BACKSTOP_MS).unref();
  for (const end of parts) await end();
}
