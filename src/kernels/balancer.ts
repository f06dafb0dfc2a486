import type { BackendsStatus } from "./kernel.ts";

/** After this time without a request a session is forgotten. */
const FORGET_AFTER_MS = 3_600_000;

export interface BalancerOptions {
  /** How long a backend that is out gets no requests, before one request tries it again (circuit breaker). */
  coolDownMs: number;
  /** Consecutive failures after which a backend is out. */
  maxFailures?: number;
  now?: () => number;
}

/** One request to a backend. Call `ended` in a `finally`; before it, at most one of `succeeded` and `failed`. */
export interface BackendUse {
  /** The backend worked. An exception in user code counts as success. */
  succeeded(): void;
  /** The backend was unreachable, or its answer was invalid. */
  failed(): void;
  /** The request is over. */
  ended(): void;
}

interface Backend {
  name: string;
  /** Sessions with running requests there, and how many each. */
  running: Map<string, number>;
  failures: number;
  isOut: boolean;
  /** When a backend that is out may get its trial request. */
  trialAt: number;
  /** Running requests that started while it was out: the trial. */
  trials: number;
  /**
   * Incremented when it goes out and when it is reset. Results of requests from an earlier era are ignored: a late
   * success does not bring a backend back.
   */
  era: number;
  isDraining: boolean;
  /** Order of use; the smallest is the least recently used. */
  turn: number;
  lastUsedAt: number | undefined;
}

/** Decides which backend a session goes to. It does no I/O: callers report how their requests went. */
export class Balancer {
  readonly #backends: Backend[];
  readonly #places = new Map<string, { backend: Backend; usedAt: number }>();
  readonly #coolDownMs: number;
  readonly #maxFailures: number;
  readonly #now: () => number;
  #turns = 0;

  constructor(names: string[], { coolDownMs, maxFailures = 3, now = Date.now }: BalancerOptions) {
    this.#backends = [...new Set(names)].map((name) => ({
      name,
      running: new Map(),
      failures: 0,
      isOut: false,
      trialAt: 0,
      trials: 0,
      era: 0,
      isDraining: false,
      turn: 0,
      lastUsedAt: undefined,
    }));
    this.#coolDownMs = coolDownMs;
    this.#maxFailures = maxFailures;
    this.#now = now;
  }

  /**
   * The backend for a session: its current one, unless that is out; otherwise the one with the fewest running sessions,
   * then the least recently used, then the first. `except`: failed already in this call. Undefined: none is left.
   */
  choose(sessionId: string, except: ReadonlySet<string> = new Set()): string | undefined {
    this.#forgetIdle();
    const had = this.#places.get(sessionId)?.backend;
    const own = () => (had && !except.has(had.name) && this.#isOpen(had) ? had : undefined);
    const best = own() ?? this.#best(this.#backends.filter(({ name, isDraining }) => !isDraining && !except.has(name)));
    // If all were out, all have just been reset, including the session's own.
    const chosen = own() ?? best;
    if (!chosen) return undefined;
    // Counts as used now, so that concurrent callers are spread, and only one gets the trial.
    chosen.turn = ++this.#turns;
    if (chosen.isOut) chosen.trialAt = this.#now() + this.#coolDownMs;
    this.#bind(sessionId, chosen);
    return chosen.name;
  }

  /** The session's backend. */
  placeOf(sessionId: string): string | undefined {
    return this.#places.get(sessionId)?.backend.name;
  }

  /** Assigns a session to the backend that it is known to be on. */
  place(sessionId: string, name: string): void {
    this.#bind(sessionId, this.#get(name));
  }

  /** Whether the backend should get no requests for now. */
  isOut(name: string): boolean {
    return this.#get(name).isOut;
  }

  /** Starts a request. */
  begin(sessionId: string, name: string): BackendUse {
    const backend = this.#get(name);
    const { era } = backend;
    const isTrial = backend.isOut;
    let hasVerdict = false;
    let hasEnded = false;
    this.#bind(sessionId, backend);
    backend.turn = ++this.#turns;
    backend.lastUsedAt = this.#now();
    backend.running.set(sessionId, (backend.running.get(sessionId) ?? 0) + 1);
    if (isTrial) backend.trials++;

    const isNews = () => {
      const isFirst = !hasVerdict;
      hasVerdict = true;
      return isFirst && era === backend.era;
    };
    return {
      succeeded: () => {
        if (!isNews()) return;
        backend.failures = 0;
        backend.isOut = false;
      },
      failed: () => {
        if (!isNews()) return;
        backend.failures++;
        if (backend.failures >= this.#maxFailures) this.#putOut(backend);
      },
      ended: () => {
        if (hasEnded) return;
        hasEnded = true;
        if (isTrial) backend.trials--;
        const left = (backend.running.get(sessionId) ?? 1) - 1;
        if (left > 0) backend.running.set(sessionId, left);
        else backend.running.delete(sessionId);
        const place = this.#places.get(sessionId);
        if (place) place.usedAt = this.#now();
      },
    };
  }

  forget(sessionId: string): void {
    this.#places.delete(sessionId);
  }

  /** Draining: sessions there stay, but no new ones come. False: no such backend. */
  drain(name: string, draining: boolean): boolean {
    const backend = this.#backends.find((one) => one.name === name);
    if (backend) backend.isDraining = draining;
    return backend !== undefined;
  }

  status(): BackendsStatus {
    this.#forgetIdle();
    return {
      ports: Object.fromEntries(
        this.#backends.map((backend) => [
          backend.name,
          {
            status: statusOf(backend),
            active_sessions: backend.running.size,
            error_count: backend.failures,
            last_used: backend.lastUsedAt === undefined ? "never" : new Date(backend.lastUsedAt).toISOString(),
          },
        ]),
      ),
      total_sessions: this.#places.size,
    };
  }

  #best(candidates: Backend[]): Backend | undefined {
    if (candidates.length === 0) return undefined;
    const open = candidates.filter((backend) => this.#isOpen(backend));
    if (open.length > 0) return open.reduce((best, backend) => (isBetter(backend, best) ? backend : best));
    // If all are out, refusing every request would help no caller: reset them.
    for (const backend of this.#backends) if (backend.isOut) reset(backend);
    return this.#best(candidates);
  }

  /** In use, or due for its trial. */
  #isOpen(backend: Backend): boolean {
    return !backend.isOut || (backend.trials === 0 && this.#now() >= backend.trialAt);
  }

  #putOut(backend: Backend): void {
    backend.isOut = true;
    backend.era++;
    backend.trialAt = this.#now() + this.#coolDownMs;
  }

  #bind(sessionId: string, backend: Backend): void {
    this.#places.set(sessionId, { backend, usedAt: this.#now() });
  }

  #forgetIdle(): void {
    const oldest = this.#now() - FORGET_AFTER_MS;
    for (const [sessionId, { backend, usedAt }] of this.#places) {
      if (usedAt <= oldest && !backend.running.has(sessionId)) this.#places.delete(sessionId);
    }
  }

  #get(name: string): Backend {
    const backend = this.#backends.find((one) => one.name === name);
    if (!backend) throw new Error(`There is no backend ${name}.`);
    return backend;
  }
}

function isBetter(one: Backend, other: Backend): boolean {
  return one.running.size === other.running.size ? one.turn < other.turn : one.running.size < other.running.size;
}

function reset(backend: Backend): void {
  backend.isOut = false;
  backend.failures = 0;
  backend.era++;
}

function statusOf(backend: Backend): BackendsStatus["ports"][string]["status"] {
  if (backend.isOut) return "error";
  if (backend.isDraining) return "draining";
  return backend.running.size > 0 ? "busy" : "idle";
}
