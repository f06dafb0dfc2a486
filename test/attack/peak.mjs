// The server's memory use during an action.
import { rssMb } from "./server.mjs";

/** Limit of the growth during a flood; afterwards the invariants allow less. */
export const MAX_PEAK_MB = 192;
export const MAX_REPLY_BYTES = 1_000_000;

/** Runs an action while watching the server's memory; returns the maximum growth. */
export async function peakOf(server, work) {
  const before = rssMb(server.pid);
  let peak = before;
  const watch = setInterval(() => {
    peak = Math.max(peak, rssMb(server.pid));
  }, 20);
  try {
    const value = await work();
    return { value, grownMb: Math.max(peak, rssMb(server.pid)) - before };
  } finally {
    clearInterval(watch);
  }
}
