/** Wrong tokens that one address may try per window: enough for a person who pastes the wrong line. */
const MAX_TRIES = 10;
const WINDOW_MS = 60_000;
/** Addresses remembered. An attacker with more addresses cannot be rate-limited by address. */
const MAX_ADDRESSES = 10_000;

/** Rate limit for wrong tokens, by address. */
export interface TokenRateLimit {
  /** How long this address has to wait; 0: not at all. */
  waitSeconds(address: string): number;
  wrong(address: string): void;
}

interface Tries {
  count: number;
  sinceMs: number;
}

export function createTokenRateLimit(now: () => number = () => performance.now()): TokenRateLimit {
  const byNetwork = new Map<string, Tries>();
  const current = (network: string): Tries | undefined => {
    const tries = byNetwork.get(network);
    return tries && now() - tries.sinceMs < WINDOW_MS ? tries : undefined;
  };
  return {
    waitSeconds(address) {
      const tries = current(networkOf(address));
      if (!tries || tries.count < MAX_TRIES) return 0;
      return Math.ceil((tries.sinceMs + WINDOW_MS - now()) / 1000);
    },
    wrong(address) {
      const network = networkOf(address);
      const { count, sinceMs } = current(network) ?? { count: 0, sinceMs: now() };
      byNetwork.delete(network);
      byNetwork.set(network, { count: count + 1, sinceMs });
      const [oldest] = byNetwork.keys();
      if (byNetwork.size > MAX_ADDRESSES && oldest !== undefined) byNetwork.delete(oldest);
    },
  };
}

/** A single machine may use a whole IPv6 /64. */
function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:/i, "").split("%")[0] ?? "";
  if (!plain.includes(":")) return plain;
  const [head = "", tail = ""] = plain.split("::");
  const groups = head.split(":");
  const after = plain.includes("::") ? tail.split(":").filter(Boolean) : [];
  const missing = 8 - groups.length - after.length;
  return [...groups, ...Array(Math.max(0, missing)).fill("0"), ...after].slice(0, 4).join(":");
}
