import type { Session } from "../../engine/session/session.ts";

/** Usage of sessions since their start or reset, for `list_sessions`. */
export class SessionUses {
  readonly #uses = new WeakMap<Session, { sinceMs: number; cells: number }>();
  readonly #now: () => number;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  restart(session: Session): void {
    this.#uses.set(session, { sinceMs: this.#now(), cells: 0 });
  }

  /** Counts an ended cell, successful or not. */
  count(session: Session): void {
    const use = this.#uses.get(session);
    if (use) use.cells += 1;
  }

  of(session: Session): { uptime_s: number; exec_count: number } {
    const { sinceMs = this.#now(), cells = 0 } = this.#uses.get(session) ?? {};
    return { uptime_s: Math.round((this.#now() - sinceMs) / 10) / 100, exec_count: cells };
  }
}
