import type { SessionRecord } from "../store/store.ts";
import type { Session } from "./session.ts";

/** Ids that are still known to have expired; a caller that comes back much later finds no trace. */
const REMEMBERED = 10_000;

export interface LifetimesConfig {
  /** 0: never. */
  ttlMs: number;
  /** What is not used for so long is not only put to sleep but forgotten, with its files. */
  forgetExpired?: boolean;
  keepDays: number;
  /** How often idle sessions are looked for. Otherwise often enough for their lifetime. */
  sweepMs?: number | undefined;
  now?: () => number;
}

/** How long sessions and what is left of them are kept. */
export class Lifetimes {
  readonly #config: LifetimesConfig;
  /** The newest of those that are gone because nobody used them. */
  readonly #expired = new Set<string>();

  constructor(config: LifetimesConfig) {
    this.#config = config;
  }

  /** Often enough that a short lifetime means what it says. */
  get sweepMs(): number {
    const { sweepMs, ttlMs } = this.#config;
    return sweepMs ?? Math.min(Math.max((ttlMs || Number.POSITIVE_INFINITY) / 4, 500), 30_000);
  }

  /** Not used for so long that its kernel is to go. */
  isIdle({ hasKernel, idleMs }: Session): boolean {
    const { ttlMs } = this.#config;
    return ttlMs > 0 && hasKernel && idleMs >= ttlMs;
  }

  /** Where sessions do not outlive their lifetime: whether this one is over it. */
  isOver({ idleMs }: Session): boolean {
    const { ttlMs, forgetExpired } = this.#config;
    return forgetExpired === true && ttlMs > 0 && idleMs > ttlMs;
  }

  /** Not used for longer than anything is kept. */
  isOld({ lastUsedAt }: SessionRecord): boolean {
    const { ttlMs, forgetExpired, keepDays, now = Date.now } = this.#config;
    const keptMs = forgetExpired && ttlMs > 0 ? ttlMs : keepDays * 86_400_000;
    return Date.parse(lastUsedAt) < now() - keptMs;
  }

  /** Notes that a session is gone because nobody used it. */
  remember({ owner, id }: SessionRecord): void {
    this.#expired.add(JSON.stringify([owner, id]));
    const [oldest] = this.#expired;
    if (oldest !== undefined && this.#expired.size > REMEMBERED) this.#expired.delete(oldest);
  }

  hasExpired(owner: string, id: string): boolean {
    return this.#expired.has(JSON.stringify([owner, id]));
  }
}
