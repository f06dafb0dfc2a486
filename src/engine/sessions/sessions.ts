import { CellwrightError, hasCode } from "../../errors.ts";
import type { Language } from "../../execution.ts";
import { type KernelProvider, ORPHAN_TTL_MS } from "../../kernels/kernel.ts";
import { LOCAL_OWNER, type SessionRecord } from "../../store/store.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { QueueTotal } from "../session/queue.ts";
import { Session, type SessionParts } from "../session/session.ts";
import { FRESH_KERNEL_NOW } from "../session/stop.ts";
import { SessionFolders, type SessionFoldersParts } from "./folders.ts";
import { Lifetimes, type LifetimesConfig } from "./lifetimes.ts";
import { WarmSessions } from "./warm-sessions.ts";

/** A live kernel answers in milliseconds; one stuck in native code is adopted later, or not at all. */
const ADOPTION_TIMEOUT_MS = 10_000;

export { LOCAL_OWNER };

export interface SessionsConfig
  extends SessionFoldersParts,
    LifetimesConfig,
    Pick<SessionParts, "provider" | "log" | "defaultTimeoutMs" | "restore"> {
  openWorkspace: (dir: string) => Workspace;
  maxSessions: number;
  /** Kernels started in advance for future sessions. */
  warm: number;
}

/** A session as listings show it. */
export interface SessionSummary {
  record: SessionRecord;
  state: "busy" | "idle" | "asleep" | "closed" | "in use elsewhere";
  kernel?: string;
}

export interface NewSession {
  name?: string | undefined;
  env?: string | undefined;
  /** Allow any text as a name, also one that is in use: the caller tells the sessions apart. */
  anyName?: boolean;
  /** Delete it, with its files, when it ends. */
  temporary?: boolean;
  /** Labels that a guest stores with the session. */
  labels?: Record<string, string>;
}

/** Called after files of a session were created, changed or deleted. */
export type FileWatcher = (session: Session, paths: string[]) => void;

/** All sessions: those with a kernel, and past ones whose files and history are still kept. */
export class Sessions {
  readonly #config: SessionsConfig;
  readonly #now: () => number;
  readonly #open = new Map<string, Session>();
  /** Undefined: it was not opened, because its kernel is gone. */
  readonly #opening = new Map<string, Promise<Session | undefined>>();
  /** Searches of the store under way, by owner and what they look for. */
  readonly #finding = new Map<string, Promise<Session>>();
  /** Names reserved for sessions that are being created. */
  readonly #naming = new Set<string>();
  readonly #folders: SessionFolders;
  readonly #warmSessions: WarmSessions;
  readonly #lifetimes: Lifetimes;
  readonly #temporary = new Set<Session>();
  /** Sessions that are being closed or deleted, by id. */
  readonly #closing = new Map<string, Promise<void>>();
  /** How many have been: a record that was read before the last of them may be stale. */
  #closed = 0;
  readonly #savedUse = new Map<string, string>();
  readonly #fileWatchers = new Set<FileWatcher>();
  readonly #queued = new QueueTotal();
  readonly #sweeper: NodeJS.Timeout;
  #disposed: Promise<void> | undefined;

  constructor(config: SessionsConfig) {
    this.#config = config;
    this.#now = config.now ?? Date.now;
    this.#folders = new SessionFolders(config);
    this.#warmSessions = new WarmSessions({ ...config, folders: this.#folders });
    this.#lifetimes = new Lifetimes(config);
    this.#sweeper = setInterval(
      () => void this.sweep().catch((error) => config.log.error("sweep failed", error)),
      this.#lifetimes.sweepMs,
    );
    this.#sweeper.unref();
  }

  async create(owner: string, wanted: NewSession = {}): Promise<Session> {
    const { name, anyName = false } = wanted;
    this.#refuseWhenDisposed();
    this.#admit();
    if (name === undefined || anyName) return this.#create(owner, wanted);
    if (["", "0"].includes(name.trim())) {
      throw new CellwrightError(
        "invalid_input",
        `\`${name}\` cannot be a session's name: as session_id it means a new one.`,
      );
    }
    const naming = JSON.stringify([owner, name]);
    const isBeingGiven = this.#naming.has(naming);
    this.#naming.add(naming);
    try {
      if (isBeingGiven || (await this.#findRecord(owner, name))) {
        throw new CellwrightError(
          "invalid_input",
          `A session named \`${name}\` exists already. Choose another name, or use it as session_id.`,
        );
      }
      return await this.#create(owner, wanted);
    } finally {
      if (!isBeingGiven) this.#naming.delete(naming);
    }
  }

  async #create(owner: string, { name, env, labels, temporary = false }: NewSession): Promise<Session> {
    const id = this.#warmSessions.take() ?? (await this.#folders.claimNew());
    const now = new Date(this.#now()).toISOString();
    const about = { ...(name !== undefined && { name }), ...(env && { env }), ...(labels && { labels }) };
    const record: SessionRecord = { id, owner, ...about, createdAt: now, lastUsedAt: now, cells: 0 };
    const session = await this.#folders.forgetOnFailure(id, async () => {
      await this.#config.store.saveSession(record);
      return this.#build(record);
    });
    this.#open.set(id, session);
    if (temporary) this.#temporary.add(session);
    this.#warmSessions.refill();
    return session;
  }

  /** The owner's session with that id or name, also from before a restart. Sessions of other owners are not found. */
  async get(owner: string, idOrName: string): Promise<Session> {
    const session = await this.#openOrStored(owner, idOrName);
    session.touch();
    return session;
  }

  /** Like `get`, but undefined for an unknown session. */
  find(owner: string, idOrName: string): Promise<Session | undefined> {
    return this.get(owner, idOrName).catch((error) => {
      if (hasCode(error, "session_not_found")) return undefined;
      throw error;
    });
  }

  /** For direct requests: environments, backends, files on other machines. */
  get provider(): KernelProvider {
    return this.#config.provider;
  }

  async list(owner: string): Promise<SessionSummary[]> {
    const records = (await this.#config.store.sessions()).filter((record) => record.owner === owner);
    const summaries = await Promise.all(records.map((record) => this.#summary(record)));
    return summaries.sort((a, b) => b.record.lastUsedAt.localeCompare(a.record.lastUsedAt));
  }

  /** The owner's sessions that this process has open, most recently used first. */
  opened(owner: string): Session[] {
    const own = [...this.#open.values()].filter((session) => session.record.owner === owner);
    return own.sort((one, other) => other.record.lastUsedAt.localeCompare(one.record.lastUsedAt));
  }

  /** Calls `watcher` whenever a cell or a tool changed files. Returns the unsubscribe function. */
  watchFiles(watcher: FileWatcher): () => void {
    this.#fileWatchers.add(watcher);
    return () => this.#fileWatchers.delete(watcher);
  }

  /** Closes a session permanently. Its files and history stay readable for a while, unless they are deleted too. */
  async close(session: Session, { deleteFiles = false } = {}): Promise<void> {
    await this.#whileClosing(session.id, () => this.#close(session, deleteFiles));
  }

  async #whileClosing(id: string, close: () => Promise<void>): Promise<void> {
    const closing = close().finally(() => {
      this.#closed += 1;
      if (this.#closing.get(id) === closing) this.#closing.delete(id);
    });
    this.#closing.set(id, closing);
    await closing;
  }

  async #close(session: Session, deleteFiles: boolean): Promise<void> {
    await session.close("closed");
    this.#open.delete(session.id);
    if (this.#temporary.delete(session) || deleteFiles) return this.#config.store.forget(session.id);
    await this.#saveAndRelease({ ...session.record, endedAt: new Date(this.#now()).toISOString() });
  }

  /** Starts `--warm` kernels in advance. Returns at once. */
  warm(): void {
    this.#warmSessions.fill();
  }

  /** Adopts the orphaned kernels of a previous server process that crashed. */
  async adopt(): Promise<void> {
    const { provider, store, ttlMs } = this.#config;
    if (!provider.adopt) return;
    const oldest = this.#now() - (ttlMs || ORPHAN_TTL_MS);
    for (const record of await store.sessions()) {
      if (record.endedAt || Date.parse(record.lastUsedAt) < oldest || this.#disposed) continue;
      if (this.#open.has(record.id) || this.#opening.has(record.id)) continue;
      await this.#whileOpening(record.id, () => this.#openIfAlive(record));
    }
  }

  async #openIfAlive(record: SessionRecord): Promise<Session | undefined> {
    const { store } = this.#config;
    if (!(await store.claim(record.id))) return undefined;
    const session = await this.#build(record, lossAfterRestart);
    if (await this.#adopt(session)) {
      this.#open.set(record.id, session);
      return session;
    }
    await store.release(record.id);
    return undefined;
  }

  async #whileOpening<T extends Session | undefined>(id: string, open: () => Promise<T>): Promise<T> {
    const opening = open().finally(() => this.#opening.delete(id));
    this.#opening.set(id, opening);
    return opening;
  }

  /** Ends the kernels of idle sessions, and deletes sessions past their retention time. */
  async sweep(): Promise<void> {
    const { ttlMs, store, log } = this.#config;
    for (const session of this.#open.values()) {
      if (await this.#expire(session)) continue;
      if (this.#lifetimes.isIdle(session)) {
        log.info(`session ${session.id}: idle for ${Math.round(session.idleMs / 1000)} s, ending its kernel`);
        await session.sleep(
          `The session was not used for ${Math.round(ttlMs / 60_000)} minutes, so its kernel was ended. ${FRESH_KERNEL_NOW}`,
        );
      }
      if (this.#savedUse.get(session.id) !== session.record.lastUsedAt) {
        await store.saveSession({ ...session.record });
        this.#savedUse.set(session.id, session.record.lastUsedAt);
      }
    }
    for (const record of await store.sessions()) {
      const open = this.#open.get(record.id);
      if (!this.#lifetimes.isOld(record) || open?.hasKernel || open?.busy) continue;
      // One unreachable backend must not stop the cleanup of other sessions.
      await this.#forgetOld(record).catch((error) => log.warn(`session ${record.id}: cannot be deleted`, error));
    }
    if (this.#config.guest?.forgetsIdleSessions) await store.removeOrphans?.(ttlMs);
  }

  /** Deletes a session that has expired, where sessions are deleted when they do. True if it did. */
  async #expire(session: Session): Promise<boolean> {
    if (!this.#lifetimes.isOver(session)) return false;
    const closing = this.#closing.get(session.id);
    if (closing) {
      await closing;
      return true;
    }
    this.#config.log.info(`session ${session.id}: idle for ${Math.round(session.idleMs / 1000)} s, deleted`);
    this.#savedUse.delete(session.id);
    this.#config.guest?.sessionForgotten?.(session.record);
    await this.close(session, { deleteFiles: true });
    return true;
  }

  /** False if another process has claimed it. */
  async #forgetOld(record: SessionRecord): Promise<boolean> {
    const { store, log, guest } = this.#config;
    const { id } = record;
    while (this.#closing.has(id)) await this.#closing.get(id)?.catch(() => {});
    let isForgotten = false;
    await this.#whileClosing(id, async () => {
      if (!this.#open.has(id) && !(await store.claim(id))) return;
      if (guest?.forgetsIdleSessions) guest.sessionForgotten?.(record);
      log.info(`session ${id}: past its retention time, deleted`);
      this.#open.delete(id);
      this.#savedUse.delete(id);
      await store.forget(id);
      isForgotten = true;
    });
    return isForgotten;
  }

  /** Ends all kernels and releases all sessions. */
  dispose(): Promise<void> {
    this.#disposed ??= this.#dispose();
    return this.#disposed;
  }

  async #dispose(): Promise<void> {
    const { provider, log } = this.#config;
    this.#warmSessions.stop();
    clearInterval(this.#sweeper);
    await Promise.allSettled(this.#opening.values());
    await Promise.all(
      [...this.#open.values()].map(async (session) => {
        await session.close("shutdown");
        // A concurrent close saves or deletes it.
        if (this.#closing.has(session.id) || !this.#open.has(session.id)) return;
        if (this.#temporary.has(session)) await this.#config.store.forget(session.id);
        else await this.#saveAndRelease(session.record);
      }),
    ).catch((error) => log.error("a session could not be saved and released", error));
    await Promise.allSettled(this.#closing.values());
    await provider.dispose();
    await this.#warmSessions.forget();
  }

  /** Calls for one session must get it in the order in which they came: their cells run in that order. */
  async #openOrStored(owner: string, idOrName: string): Promise<Session> {
    this.#refuseWhenDisposed();
    const open = this.#openSession(owner, idOrName);
    if (open && !(await this.#expire(open))) return open;
    const key = JSON.stringify([owner, idOrName]);
    const finding =
      this.#finding.get(key) ?? this.#findStored(owner, idOrName).finally(() => this.#finding.delete(key));
    this.#finding.set(key, finding);
    return finding;
  }

  /** Undefined: the store has to be asked. */
  #openSession(owner: string, idOrName: string): Session | undefined {
    const withId = this.#open.get(idOrName);
    if (withId?.record.owner === owner) return withId;
    const named = [...this.#open.values()].filter(
      ({ id, record }) =>
        record.owner === owner && record.name === idOrName && !record.endedAt && !this.#closing.has(id),
    );
    return named.length === 1 ? named[0] : undefined;
  }

  async #findStored(owner: string, idOrName: string): Promise<Session> {
    const closed = this.#closed;
    const record = await this.#findRecord(owner, idOrName);
    await this.#closing.get(record?.id ?? "")?.catch(() => {});
    if (closed !== this.#closed) return this.#findStored(owner, idOrName);
    const forgets = this.#config.guest?.forgetsIdleSessions;
    const isOver = record && forgets && !this.#open.has(record.id) && this.#lifetimes.isOld(record);
    if (!record || (isOver && (await this.#forgetOld(record))))
      throw new CellwrightError("session_not_found", `There is no session \`${idOrName}\`.`);
    return (await this.#opening.get(record.id)) ?? this.#whileOpening(record.id, () => this.#reopen(record));
  }

  async #findRecord(owner: string, idOrName: string): Promise<SessionRecord | undefined> {
    const records = (await this.#config.store.sessions()).filter((record) => record.owner === owner);
    return (
      records.find((record) => record.id === idOrName) ??
      records.find((record) => record.name === idOrName && !record.endedAt)
    );
  }

  async #reopen(record: SessionRecord): Promise<Session> {
    const { store } = this.#config;
    const open = this.#open.get(record.id);
    if (open) return open;
    if (!(await store.claim(record.id))) {
      const who = (await store.claimedBy(record.id)) ?? "another process";
      throw new CellwrightError("session_in_use", `Session \`${record.id}\` is in use by ${who}.`);
    }
    const session = await this.#build(record, lossAfterRestart);
    if (record.endedAt) await session.close("closed");
    else await this.#adopt(session);
    this.#open.set(record.id, session);
    return session;
  }

  /** If adoption fails, the session continues with a fresh kernel. */
  async #adopt(session: Session): Promise<boolean> {
    try {
      return await session.adopt(AbortSignal.timeout(ADOPTION_TIMEOUT_MS));
    } catch (error) {
      this.#config.log.warn(`session ${session.id}: its kernel could not be adopted`, error);
      return false;
    }
  }

  /** `loss`: the notice about lost variables for its next cell. */
  async #build(record: SessionRecord, loss?: string): Promise<Session> {
    const { provider, store, log, defaultTimeoutMs, restore, guest, openWorkspace } = this.#config;
    const folder = await this.#folders.of(record.id);
    const losses: Partial<Record<Language, string>> = {};
    if (loss) {
      const cells = await store.cells(record.id);
      for (const { language } of cells) losses[language] = loss;
      // After a crash the saved count may be too low.
      record.cells = Math.max(record.cells, cells.length);
    }
    const workspace = provider.workspace?.(record.id) ?? openWorkspace(folder.workspaceDir);
    const common = { provider, store, log, defaultTimeoutMs, restore, guest, now: this.#now, queued: this.#queued };
    const filesChanged = (session: Session, paths: string[]) => {
      for (const watcher of this.#fileWatchers) watcher(session, paths);
    };
    return new Session({ ...common, record, folder, workspace, admit: () => this.#admit(), filesChanged }, losses);
  }

  /** Saves and releases a session without a kernel. Its run folder goes even if the disk is full. */
  async #saveAndRelease(record: SessionRecord): Promise<void> {
    const { store, log } = this.#config;
    await this.#folders.removeRunDir(record.id);
    await store.saveSession({ ...record }).catch((error) => log.error(`session ${record.id}: cannot be saved`, error));
    await store.release(record.id);
  }

  async #summary(record: SessionRecord): Promise<SessionSummary> {
    const session = this.#open.get(record.id);
    const elsewhere = !session && (await this.#config.store.claimedBy(record.id)) !== undefined;
    const state = elsewhere ? "in use elsewhere" : record.endedAt ? "closed" : stateOf(session);
    return {
      record: session?.record ?? record,
      state,
      kernel: session?.kernels.map(({ description }) => description).join(" and "),
    };
  }

  #admit(): void {
    const live = [...this.#open.values()].filter((session) => session.hasKernel);
    const { maxSessions } = this.#config;
    if (live.length < maxSessions) return;
    const idle = live.filter((session) => !session.busy).map((session) => `\`${session.id}\``);
    throw new CellwrightError(
      "session_limit",
      `All ${maxSessions} sessions that --max-sessions allows are running${idle.length > 0 ? `; idle ones: ${idle.slice(0, 5).join(", ")}` : ""}.`,
    );
  }

  #refuseWhenDisposed(): void {
    if (this.#disposed) throw new CellwrightError("shutting_down", "Cellwright is shutting down.");
  }
}

const lossAfterRestart = `Cellwright was restarted since this session's last cell. ${FRESH_KERNEL_NOW}`;

function stateOf(session: Session | undefined): SessionSummary["state"] {
  if (!session?.hasKernel) return "asleep";
  return session.busy ? "busy" : "idle";
}
