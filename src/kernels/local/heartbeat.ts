import { open, utimes } from "node:fs/promises";
import type { Log } from "../../log.ts";

/** The heartbeat interval; a kernel without a heartbeat for much longer ends itself. */
const BEAT_MS = 20_000;

/** Minimum heartbeat age at which a server counts as gone: one beat may be late, and a second one lost. */
export const SHORTEST_SILENCE_MS = 3 * BEAT_MS;

/** Creates the file if missing, and touches it until the returned function is called. */
export async function beat(file: string, log: Log, everyMs = BEAT_MS): Promise<() => void> {
  const touch = async (): Promise<void> => {
    const now = new Date();
    await utimes(file, now, now);
  };
  await (await open(file, "a", 0o600)).close();
  await touch();
  const timer = setInterval(() => {
    touch().catch((error) => log.warn(`the heartbeat of a kernel could not be written: ${error.message}`));
  }, everyMs);
  timer.unref();
  return () => clearInterval(timer);
}
