/** Wrong tokens that one address may try in a window: a person who pastes the wrong line needs a few. */
const FREE_TRIES = 10;
const WINDOW_MS = 60_000;
/** Addresses that are remembered. An attacker with more addresses is not stopped by counting. */
const MAX_ADDRESSES = 10_000;

/** Counts wrong tokens by the address that they come from. */
export interface GuessBrake {
  /** How long this address has to wait; 0: not at all. */
  waitSeconds(address: string): number;
  wrong(address: string): void;
}

interface Tries {
  count: number;
  sinceMs: number;
}

export function createGuessBrake(now: () => number = () => performance.now()): GuessBrake {
  const byPlace = new Map<string, Tries>();
  const current = (place: string): Tries | undefined => {
    const tries = byPlace.get(place);
    return tries && now() - tries.sinceMs < WINDOW_MS ? tries : undefined;
  };
  return {
    waitSeconds(address) {
      const tries = current(placeOf(address));
      if (!tries || tries.count < FREE_TRIES) return 0;
      return Math.ceil((tries.sinceMs + WINDOW_MS - now()) / 1000);
    },
    wrong(address) {
      const place = placeOf(address);
      const { count, sinceMs } = current(place) ?? { count: 0, sinceMs: now() };
      byPlace.delete(place);
      byPlace.set(place, { count: count + 1, sinceMs });
      const [oldest] = byPlace.keys();
      if (byPlace.size > MAX_ADDRESSES && oldest !== undefined) byPlace.delete(oldest);
    },
  };
}

/** One machine has a whole /64 of IPv6 to try from. */
function placeOf(address: string): string {
  const plain = address.replace(/^::ffff:/i, "").split("%")[0] ?? "";
  if (!plain.includes(":")) return plain;
  const [head = "", tail = ""] = plain.split("::");
  const groups = head.split(":");
  const after = plain.includes("::") ? tail.split(":").filter(Boolean) : [];
  const missing = 8 - groups.length - after.length;
  return [...groups, ...Array(Math.max(0, missing)).fill("0"), ...after].slice(0, 4).join(":");
}
