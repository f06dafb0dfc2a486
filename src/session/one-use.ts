import type { Log } from "../log.ts";
import { Places } from "./places.ts";
import type { Session } from "./session.ts";

export interface OneUseParts {
  /** Of them at the same time; who comes later waits. */
  max: number;
  create(owner: string): Promise<Session>;
  /** Ends it, and removes all of it. */
  remove(session: Session): Promise<void>;
  log: Log;
}

/** Sessions for one use, which are gone afterwards with their files. */
export class OneUse {
  readonly #parts: OneUseParts;
  readonly #places: Places;
  readonly #passing = new Set<Session>();
  readonly #removing = new Set<Promise<void>>();

  constructor(parts: OneUseParts) {
    this.#parts = parts;
    this.#places = new Places(parts.max);
  }

  has(session: Session): boolean {
    return this.#passing.has(session);
  }

  /** Nobody waits for the session's end. */
  async run<T>(owner: string, signal: AbortSignal, use: (session: Session) => Promise<T>): Promise<T> {
    const leave = await this.#places.take(signal);
    let session: Session | undefined;
    try {
      session = await this.#parts.create(owner);
      this.#passing.add(session);
      return await use(session);
    } finally {
      const removed = this.#remove(session).finally(() => {
        leave();
        this.#removing.delete(removed);
      });
      this.#removing.add(removed);
    }
  }

  /** Resolves when those that have been used are gone. */
  async settled(): Promise<void> {
    await Promise.all(this.#removing);
  }

  async #remove(session: Session | undefined): Promise<void> {
    if (!session) return;
    const { remove, log } = this.#parts;
    await remove(session).catch((error) => log.warn(`session ${session.id} stays behind`, error));
    this.#passing.delete(session);
  }
}
