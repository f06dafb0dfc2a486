import { CellwrightError } from "../errors.ts";
import {
  type Backends,
  type Environment,
  type EnvironmentLook,
  type InstallOptions,
  type KernelInfo,
  ORPHAN_TTL_MS,
} from "../kernels/kernel.ts";
import { LOCAL_OWNER, type SessionRecord } from "../store/store.ts";
import type { Workspace } from "../workspace/workspace.ts";
import { buildSession, type SessionSettings } from "./build.ts";
import { SessionFolders, type SessionFoldersParts } from "./folders.ts";
import { Lifetimes, type LifetimesConfig } from "./lifetimes.ts";
import { OneUse } from "./one-use.ts";
import { QueueTotal } from "./queue.ts";
import { Reserve } from "./reserve.ts";
import type { Session } from "./session.ts";
import { FRESH_KERNEL_NOW } from "./stop.ts";

/** A live kernel answers in milliseconds; one that is stuck in native code is taken over later, or not at all. */
const ADOPTION_TIMEOUT_MS = 10_000;

export { LOCAL_OWNER };

export interface SessionsConfig extends SessionFoldersParts, LifetimesConfig, SessionSettings {
  maxSessions: number;
  /** Kernels kept ready for sessions to come. */
  warm: number;
}

/** What a list shows of a session. */
export interface SessionSummary {
  record: SessionRecord;
  state: "busy" | "idle" | "asleep" | "closed" | "in use elsewhere";
  kernel?: string;
}

/** Where a new session runs, and what is told of that. */
export type AboutEnvironment = { [Key in "env" | "envLabel" | "python"]?: string | undefined };

/** Told which files of a session were created, changed or deleted, after the fact. */
export type FileWatcher = (session: Session, paths: string[]) => void;

/** All sessions: those with a kernel now, and those of the past whose files and history are still here. */
export class Sessions {
  readonly #config: SessionsConfig;
  readonly #now: () => number;
  readonly #open = new Map<string, Session>();
  /** Undefined when there was no need to. */
  readonly #opening = new Map<string, Promise<Session | undefined>>();
  /** Names that are being given to new sessions just now. */
  readonly #naming = new Set<string>();
  readonly #obtaining = new Map<string, Promise<Session>>();
  readonly #folders: SessionFolders;
  readonly #reserve: Reserve;
  readonly #lifetimes: Lifetimes;
  readonly #oneUse: OneUse;
  readonly #savedUse = new Map<string, string>();
  readonly #fileWatchers = new Set<FileWatcher>();
  readonly #queued = new QueueTotal();
  readonly #sweeper: NodeJS.Timeout;
  #disposed: Promise<void> | undefined;

  constructor(config: SessionsConfig) {
    this.#config = config;
    this.#now = config.now ?? Date.now;
    this.#folders = new SessionFolders(config);
    this.#reserve = new Reserve({ ...config, folders: this.#folders });
    this.#lifetimes = new Lifetimes(config);
    this.#oneUse = new OneUse({
      max: config.maxSessions,
      create: (owner) => this.create(owner),
      remove: (session) => this.close(session, { deleteFiles: true }),
      log: config.log,
    });
    this.#sweeper = setInterval(
      () => void this.sweep().catch((error) => config.log.error("sweep failed", error)),
      this.#lifetimes.sweepMs,
    );
    this.#sweeper.unref();
  }

  async create(owner: string, { name, env }: { name?: string; env?: string | undefined } = {}): Promise<Session> {
    this.#refuseWhenDisposed();
    this.#admit();
    if (name !== undefined && ["", "0"].includes(name.trim())) {
      throw new CellwrightError(
        "invalid_input",
        `\`${name}\` cannot be a session's name: as session_id it means a new one.`,
      );
    }
    if (name === undefined) return this.#create(owner, { env });
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
      return await this.#create(owner, { name, env });
    } finally {
      if (!isBeingGiven) this.#naming.delete(naming);
    }
  }

  /** The owner's session of that name that this process has open. Any text can be a name here, and is only that. */
  async named(owner: string, name: string): Promise<Session | undefined> {
    const session = [...this.#open.values()].find(({ record }) => record.owner === owner && record.name === name);
    if (!session || (await this.#expire(session))) return undefined;
    session.touch();
    return session;
  }

  /** The same, begun if there is none. Who asks at the same time gets the same one. */
  async obtain(owner: string, name: string, about: AboutEnvironment = {}): Promise<Session> {
    const known = await this.named(owner, name);
    if (known) return known;
    this.#refuseWhenDisposed();
    const key = JSON.stringify([owner, name]);
    const obtaining = this.#obtaining.get(key);
    if (obtaining) return obtaining;
    this.#admit();
    const begun = this.#create(owner, { name, ...about }).finally(() => this.#obtaining.delete(key));
    this.#obtaining.set(key, begun);
    return begun;
  }

  async #create(owner: string, { name, ...environment }: { name?: string } & AboutEnvironment): Promise<Session> {
    const id = this.#reserve.take() ?? (await this.#folders.claimNew());
    const now = new Date(this.#now()).toISOString();
    const record: SessionRecord = {
      id,
      owner,
      ...(name === undefined ? {} : { name }),
      ...given(environment),
      createdAt: now,
      lastUsedAt: now,
      cells: 0,
    };
    const session = await this.#folders.orForget(id, async () => {
      await this.#config.store.saveSession(record);
      return this.#build(record);
    });
    this.#open.set(id, session);
    this.#reserve.refill();
    return session;
  }

  /** The owner's session of that id or name, of an earlier run of the program too. Somebody else's is not found. */
  async get(owner: string, idOrName: string): Promise<Session> {
    const session = await this.#find(owner, idOrName);
    session.touch();
    return session;
  }

  /** Whether a session of that id is gone because nobody used it. */
  hasExpired(owner: string, id: string): boolean {
    return this.#lifetimes.hasExpired(owner, id);
  }

  /** A session that nobody here knows of, but whose files others have left: `filesOf` shows them. */
  async enroll(owner: string, found: Pick<SessionRecord, "id" | "createdAt" | "lastUsedAt">): Promise<Session> {
    this.#refuseWhenDisposed();
    const record = { ...found, owner, cells: 0 };
    return (await this.#opening.get(found.id)) ?? this.#whileOpening(found.id, () => this.#enroll(record));
  }

  async #enroll(record: SessionRecord): Promise<Session> {
    const { store } = this.#config;
    if ((await store.sessions()).some(({ id }) => id === record.id)) {
      throw new CellwrightError("session_not_found", `There is no session \`${record.id}\`.`);
    }
    const session = await this.#reopen(record);
    await store.saveSession({ ...record });
    if (await this.#expire(session)) throw new CellwrightError("session_not_found", `\`${record.id}\` has expired.`);
    return session;
  }

  /** What is in a session's folder on another machine, whether or not it is known here. Undefined: there is none. */
  filesOf(id: string): Workspace | undefined {
    return this.#config.provider.workspace?.(id);
  }

  /** The folder with the folders of all sessions, where that is on another machine. */
  get shelf(): Workspace | undefined {
    return this.#config.provider.surroundings?.("");
  }

  async list(owner: string): Promise<SessionSummary[]> {
    const records = (await this.#config.store.sessions()).filter((record) => record.owner === owner);
    const summaries = await Promise.all(records.map((record) => this.#summary(record)));
    return summaries.sort((a, b) => b.record.lastUsedAt.localeCompare(a.record.lastUsedAt));
  }

  /** The owner's sessions that this process has open, the one used last first. */
  opened(owner: string): Session[] {
    const own = [...this.#open.values()].filter((session) => session.record.owner === owner);
    return own.sort((one, other) => other.record.lastUsedAt.localeCompare(one.record.lastUsedAt));
  }

  /** Calls `watcher` whenever files changed, in a cell or through a tool. Returns what ends that. */
  watchFiles(watcher: FileWatcher): () => void {
    this.#fileWatchers.add(watcher);
    return () => this.#fileWatchers.delete(watcher);
  }

  /** What sessions are spread over, where that is more than this machine. */
  get backends(): Backends | undefined {
    return this.#config.provider.backends;
  }

  /** The kernels a session can get, without starting one. */
  kernels(signal: AbortSignal): Promise<KernelInfo[]> {
    return this.#config.provider.list(signal);
  }

  /** The environments that `env` can name; none where sessions all run in the same place. */
  async environments(signal: AbortSignal): Promise<Environment[]> {
    return (await this.#config.provider.environments?.(signal)) ?? [];
  }

  /** One of them, looked at closely. Undefined where there are none to choose from. */
  async environment(env: string | undefined, options: InstallOptions): Promise<EnvironmentLook | undefined> {
    return this.#config.provider.environment?.(env, options);
  }

  /** Ends a session for good. Its files and history can still be read for a while, unless they are to go too. */
  async close(session: Session, { deleteFiles = false } = {}): Promise<void> {
    await session.close("closed");
    this.#open.delete(session.id);
    const { store } = this.#config;
    if (deleteFiles) return store.forget(session.id);
    await this.#putAway({ ...session.record, endedAt: new Date(this.#now()).toISOString() });
  }

  /**
   * A session for one use, which is gone afterwards with its files; nobody waits for that. Where there are as many
   * sessions as may be, it waits for one of its kind to end.
   */
  once<T>(owner: string, signal: AbortSignal, use: (session: Session) => Promise<T>): Promise<T> {
    return this.#oneUse.run(owner, signal, use);
  }

  /** Starts kernels for sessions to come, `--warm` of them. Returns at once. */
  warm(): void {
    this.#reserve.fill();
  }

  /** Takes over the kernels that an earlier run of the program left behind when it crashed. */
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

  /** Ends the kernels of sessions that nobody uses, and forgets what is older than it is kept. */
  async sweep(): Promise<void> {
    const { ttlMs, store, log } = this.#config;
    for (const session of this.#open.values()) {
      if (await this.#expire(session)) continue;
      if (this.#lifetimes.isIdle(session)) {
        log.info(`session ${session.id}: idle for ${Math.round(session.idleMs / 1000)} s, its kernel is ended`);
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
      // A place that is out of reach now must not keep the others from being tidied up.
      await this.#forgetOld(record).catch((error) => log.warn(`session ${record.id}: cannot be forgotten`, error));
    }
    if (this.#config.forgetExpired) await store.removeOrphans?.(ttlMs);
  }

  /** Where sessions do not outlive their lifetime, ends one that is over it. True if it did. */
  async #expire(session: Session): Promise<boolean> {
    if (!this.#lifetimes.isOver(session)) return false;
    this.#config.log.info(`session ${session.id}: idle for ${Math.round(session.idleMs / 1000)} s, forgotten`);
    this.#savedUse.delete(session.id);
    this.#lifetimes.remember(session.record);
    await this.close(session, { deleteFiles: true });
    return true;
  }

  /** False if another process has it. */
  async #forgetOld(record: SessionRecord): Promise<boolean> {
    const { store, log } = this.#config;
    const { id } = record;
    if (!this.#open.has(id) && !(await store.claim(id))) return false;
    if (this.#config.forgetExpired) this.#lifetimes.remember(record);
    log.info(`session ${id}: not used for longer than it is kept, forgotten`);
    this.#open.delete(id);
    this.#savedUse.delete(id);
    await store.forget(id);
    return true;
  }

  /** Ends all kernels and lets go of all sessions. */
  dispose(): Promise<void> {
    this.#disposed ??= this.#dispose();
    return this.#disposed;
  }

  async #dispose(): Promise<void> {
    const { provider, log } = this.#config;
    this.#reserve.stop();
    clearInterval(this.#sweeper);
    await Promise.allSettled(this.#opening.values());
    await Promise.all(
      [...this.#open.values()].map(async (session) => {
        await session.close("shutdown");
        if (!this.#oneUse.has(session)) await this.#putAway(session.record);
      }),
    ).catch((error) => log.error("a session could not be put away", error));
    await this.#oneUse.settled();
    await provider.dispose();
    await this.#reserve.forget();
  }

  async #find(owner: string, idOrName: string): Promise<Session> {
    this.#refuseWhenDisposed();
    const open = this.#open.get(idOrName);
    if (open?.record.owner === owner && !(await this.#expire(open))) return open;
    const record = await this.#findRecord(owner, idOrName);
    const isOver = record && this.#config.forgetExpired && !this.#open.has(record.id) && this.#lifetimes.isOld(record);
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

  /** What cannot be adopted is as good as gone: the session goes on with a fresh kernel. */
  async #adopt(session: Session): Promise<boolean> {
    try {
      return await session.adopt(AbortSignal.timeout(ADOPTION_TIMEOUT_MS));
    } catch (error) {
      this.#config.log.warn(`session ${session.id}: its kernel could not be taken over`, error);
      return false;
    }
  }

  #build(record: SessionRecord, loss?: string): Promise<Session> {
    const around = {
      folders: this.#folders,
      localOwner: LOCAL_OWNER,
      admit: () => this.#admit(),
      now: this.#now,
      queued: this.#queued,
      filesChanged: (session: Session, paths: string[]) => {
        for (const watcher of this.#fileWatchers) watcher(session, paths);
      },
    };
    return buildSession(record, this.#config, around, loss);
  }

  /** Lets go of a session that has no kernel any more. A full disk is no reason to keep its temporary folder. */
  async #putAway(record: SessionRecord): Promise<void> {
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

/** What has a value. */
function given(about: AboutEnvironment): { [Key in keyof AboutEnvironment]?: string } {
  return Object.fromEntries(Object.entries(about).filter(([, value]) => value));
}

function stateOf(session: Session | undefined): SessionSummary["state"] {
  if (!session?.hasKernel) return "asleep";
  return session.busy ? "busy" : "idle";
}
