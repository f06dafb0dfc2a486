// How much memory a server takes while something is done to it.
import { rssMb } from "./server.mjs";

/** What the server may take for the length of a flood; afterwards the invariants allow less. */
export const MAX_PEAK_MB = 192;
export const MAX_REPLY_BYTES = 1_000_000;

/** Runs something while the server's memory is watched; returns by how much it grew at most. */
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
