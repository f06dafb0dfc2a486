import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Execution } from "../execution.ts";
import type { Log } from "../log.ts";
import { within } from "../within.ts";
import { isSessionId } from "./blob-name.ts";
import { Pushes } from "./pushes.ts";
import type { Mirror, PastCell, SessionRecord, Spill, Store } from "./store.ts";

export interface MirroredParts {
  /** The local store. All reads go to it. */
  store: Store;
  mirror: Mirror;
  log: Log;
  /** How long a cell's reply waits for the copy of its record. */
  waitMs?: number;
}

const WAIT_MS = 5_000;
/** How long the first listing waits for sessions that only the mirror has. */
const FIRST_PULL_MS = 10_000;
/** A crashed Cellwright is known to be dead after a minute; its sessions can be fetched from then on. */
const PULL_EVERY_MS = 60_000;
const ELSEWHERE = "another Cellwright on the same Jupyter server";

/**
 * A store that copies its sessions to a mirror, for a start on a new disk. Starts to fetch missing sessions at once.
 */
export function openMirroredStore(parts: MirroredParts): Store {
  const store = new MirroredStore(parts);
  store.start();
  return store;
}

class MirroredStore implements Store {
  readonly #store: Store;
  readonly #mirror: Mirror;
  readonly #log: Log;
  readonly #waitMs: number;
  readonly #pushes: Pushes;
  readonly #elsewhere = new Set<string>();
  readonly #forgetting = new Set<string>();
  #firstPull: Promise<void> = Promise.resolve();
  #pulling: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isPullFailing = false;
  #isDisposed = false;

  constructor({ store, mirror, log, waitMs = WAIT_MS }: MirroredParts) {
    this.#store = store;
    this.#mirror = mirror;
    this.#log = log;
    this.#waitMs = waitMs;
    this.#pushes = new Pushes(async (sessionId) => mirror.push(sessionId, await store.folder(sessionId)), log);
  }

  start(): void {
    this.#firstPull = within(FIRST_PULL_MS, this.#pull()).then(() => {});
    this.#timer = setInterval(() => void this.#pull(), PULL_EVERY_MS).unref();
  }

  async sessions(): Promise<SessionRecord[]> {
    await this.#firstPull;
    return this.#store.sessions();
  }

  async claim(sessionId: string): Promise<boolean> {
    if (!(await this.#store.claim(sessionId))) return false;
    const folder = await this.#store.folder(sessionId);
    // A new session is not in the mirror yet.
    const isFree = existsSync(join(folder, "session.json")) ? await this.#claimThere(sessionId, folder) : true;
    if (isFree) this.#elsewhere.delete(sessionId);
    else {
      this.#elsewhere.add(sessionId);
      await this.#store.release(sessionId);
    }
    return isFree;
  }

  async claimedBy(sessionId: string): Promise<string | undefined> {
    return (await this.#store.claimedBy(sessionId)) ?? (this.#elsewhere.has(sessionId) ? ELSEWHERE : undefined);
  }

  async release(sessionId: string): Promise<void> {
    await this.#settled(sessionId);
    await this.#store.release(sessionId);
  }

  async saveSession(record: SessionRecord): Promise<void> {
    await this.#store.saveSession(record);
    void this.#pushes.push(record.id);
  }

  async begin(sessionId: string, execution: Execution): Promise<void> {
    await this.#store.begin(sessionId, execution);
    void this.#pushes.push(sessionId);
  }

  async finish(sessionId: string, execution: Execution): Promise<string[]> {
    const notices = await this.#store.finish(sessionId, execution);
    const pushed = this.#pushes.push(sessionId);
    // While the server is known to be unreachable, replies do not wait for it.
    if (!this.#pushes.isFailing) await within(this.#waitMs, pushed);
    return notices;
  }

  history(sessionId: string): Promise<Execution[]> {
    return this.#store.history(sessionId);
  }

  cells(sessionId: string): Promise<PastCell[]> {
    return this.#store.cells(sessionId);
  }

  execution(sessionId: string, executionId: string): Promise<Execution | undefined> {
    return this.#store.execution(sessionId, executionId);
  }

  putBlob(sessionId: string, bytes: Uint8Array, mimeType: string): Promise<string> {
    return this.#store.putBlob(sessionId, bytes, mimeType);
  }

  openSpill(sessionId: string, name: string, maxBytes: number): Spill {
    return this.#store.openSpill(sessionId, name, maxBytes);
  }

  getBlob(uri: string): ReturnType<Store["getBlob"]> {
    return this.#store.getBlob(uri);
  }

  /** Deletes from the mirror first: a session deleted only here would be fetched again. */
  async forget(sessionId: string): Promise<void> {
    this.#forgetting.add(sessionId);
    try {
      await this.#settled(sessionId);
      await this.#mirror.forget(sessionId);
      await this.#store.forget(sessionId);
      this.#pushes.forget(sessionId);
    } finally {
      this.#forgetting.delete(sessionId);
    }
  }

  async removeOrphans(unusedForMs: number): Promise<void> {
    await this.#store.removeOrphans?.(unusedForMs);
  }

  folder(sessionId: string): Promise<string> {
    return this.#store.folder(sessionId);
  }

  async dispose(): Promise<void> {
    this.#isDisposed = true;
    clearInterval(this.#timer);
    await this.#pushes.end(this.#waitMs);
    await within(this.#waitMs, this.#pulling ?? Promise.resolve());
    await this.#store.dispose();
  }

  async #claimThere(sessionId: string, folder: string): Promise<boolean> {
    const claiming = this.#mirror.claim(sessionId, folder).catch((error) => {
      this.#log.warn(`session ${sessionId}: cannot check whether it is in use elsewhere`, error);
      return true;
    });
    return (await within(this.#waitMs, claiming)) ?? true;
  }

  async #settled(sessionId: string): Promise<void> {
    await within(this.#waitMs, this.#pushes.settled(sessionId));
  }

  /** Fetches sessions that only the mirror has. */
  #pull(): Promise<void> {
    this.#pulling ??= this.#pullMissing()
      .then(
        () => {
          this.#isPullFailing = false;
        },
        (error) => {
          if (!this.#isPullFailing) this.#log.warn("cannot list the sessions in the mirror", error);
          this.#isPullFailing = true;
        },
      )
      .finally(() => {
        this.#pulling = undefined;
      });
    return this.#pulling;
  }

  async #pullMissing(): Promise<void> {
    const there = (await this.#mirror.list()).filter(isSessionId);
    const here = new Set((await this.#store.sessions()).map(({ id }) => id));
    for (const id of there) {
      if (here.has(id) || this.#forgetting.has(id)) continue;
      if (this.#isDisposed) return;
      await this.#pullOne(id);
    }
  }

  async #pullOne(sessionId: string): Promise<void> {
    if (!(await this.#store.claim(sessionId))) return;
    try {
      await this.#mirror.pull(sessionId, await this.#store.folder(sessionId));
      this.#log.info(`session ${sessionId}: fetched from the mirror`);
    } catch (error) {
      this.#log.warn(`session ${sessionId}: cannot be fetched from the mirror`, error);
    } finally {
      await this.#store.release(sessionId);
    }
  }
}
