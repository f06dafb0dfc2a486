import { type CellwrightError, hasCode } from "../errors.ts";
import type { Log } from "../log.ts";
import { within } from "../within.ts";

interface Turns {
  running: Promise<void>;
  /** Starts when the running push ends, and includes everything new until then. */
  next?: Promise<void>;
}

/** Copies sessions to a mirror. Per session one push at a time; changes meanwhile are combined into the next. */
export class Pushes {
  readonly #send: (sessionId: string) => Promise<void>;
  readonly #log: Log;
  readonly #turns = new Map<string, Turns>();
  /** Sessions whose last push failed. */
  readonly #behind = new Set<string>();
  readonly #usedElsewhere = new Set<string>();
  #isEnding = false;

  constructor(send: (sessionId: string) => Promise<void>, log: Log) {
    this.#send = send;
    this.#log = log;
  }

  /** The last push of some session failed. */
  get isFailing(): boolean {
    return this.#behind.size > 0;
  }

  /** Resolves when the current state has been sent, or the push failed. Never rejects. */
  push(sessionId: string): Promise<void> {
    const turns = this.#turns.get(sessionId);
    if (turns) {
      turns.next ??= turns.running.then(() => this.#begin(sessionId));
      return turns.next;
    }
    return this.#begin(sessionId);
  }

  async settled(sessionId: string): Promise<void> {
    for (let turns = this.#turns.get(sessionId); turns; turns = this.#turns.get(sessionId)) {
      await (turns.next ?? turns.running);
    }
  }

  forget(sessionId: string): void {
    this.#behind.delete(sessionId);
    this.#usedElsewhere.delete(sessionId);
  }

  /** Waits for running pushes. Failures are not logged any more: the mirror may be shutting down, too. */
  async end(timeoutMs: number): Promise<void> {
    this.#isEnding = true;
    await within(timeoutMs, Promise.all([...this.#turns.keys()].map((id) => this.settled(id))));
  }

  #begin(sessionId: string): Promise<void> {
    const running = this.#run(sessionId).then(() => {
      if (!turns.next) this.#turns.delete(sessionId);
    });
    const turns: Turns = { running };
    this.#turns.set(sessionId, turns);
    return running;
  }

  async #run(sessionId: string): Promise<void> {
    try {
      await this.#send(sessionId);
    } catch (error) {
      if (hasCode(error, "session_in_use")) return this.#noteUse(sessionId, error);
      const isFirst = !this.isFailing;
      this.#behind.add(sessionId);
      if (isFirst && !this.#isEnding) {
        this.#log.warn("cannot copy sessions to the mirror; they are kept here and copied later", error);
      }
      return;
    }
    this.#behind.delete(sessionId);
    this.#usedElsewhere.delete(sessionId);
    // It works again: also push idle sessions that failed before.
    for (const id of this.#isEnding ? [] : this.#behind) if (!this.#turns.has(id)) void this.push(id);
  }

  /** A retry would not help. */
  #noteUse(sessionId: string, error: CellwrightError): void {
    if (!this.#usedElsewhere.has(sessionId)) this.#log.warn(`session ${sessionId} is not copied`, error);
    this.#usedElsewhere.add(sessionId);
  }
}
