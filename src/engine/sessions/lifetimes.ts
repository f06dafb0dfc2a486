import type { SessionRecord } from "../../store/store.ts";
import type { Guest } from "../guest.ts";
import type { Session } from "../session/session.ts";

export interface LifetimesConfig {
  /** 0: never. */
  ttlMs: number;
  guest?: Guest | undefined;
  keepDays: number;
  now?: () => number;
}

/** How long sessions, and their history and files, are kept. */
export class Lifetimes {
  readonly #config: LifetimesConfig;

  constructor(config: LifetimesConfig) {
    this.#config = config;
  }

  /** Often enough for a short lifetime to be exact. */
  get sweepMs(): number {
    const { ttlMs } = this.#config;
    return Math.min(Math.max((ttlMs || Number.POSITIVE_INFINITY) / 4, 500), 30_000);
  }

  /** Idle for long enough that its kernel should end. */
  isIdle({ hasKernel, idleMs }: Session): boolean {
    const { ttlMs } = this.#config;
    return ttlMs > 0 && hasKernel && idleMs >= ttlMs;
  }

  /** Whether a session has expired, where sessions are deleted when they do. */
  isOver({ idleMs }: Session): boolean {
    return this.#forgets && idleMs > this.#config.ttlMs;
  }

  /** Unused for longer than anything is kept. */
  isOld({ lastUsedAt }: SessionRecord): boolean {
    const { ttlMs, keepDays, now = Date.now } = this.#config;
    const keptMs = this.#forgets ? ttlMs : keepDays * 86_400_000;
    return Date.parse(lastUsedAt) < now() - keptMs;
  }

  get #forgets(): boolean {
    const { ttlMs, guest } = this.#config;
    return guest?.forgetsIdleSessions === true && ttlMs > 0;
  }
}
