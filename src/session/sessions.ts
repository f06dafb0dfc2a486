import { CellwrightError } from "../errors.ts";
import type { Language } from "../execution.ts";
import { type Environment, type KernelInfo, type KernelProvider, ORPHAN_TTL_MS } from "../kernels/kernel.ts";
import type { SessionRecord } from "../store/store.ts";
import type { Workspace } from "../workspace/workspace.ts";
import { SessionFolders, type SessionFoldersParts } from "./folders.ts";
import { Reserve } from "./reserve.ts";
import { Session } from "./session.ts";
import { FRESH_KERNEL_NOW } from "./stop.ts";

/** How often idle sessions are looked for: often enough that a short lifetime means what it says. */
const sweepEveryMs = (ttlMs: number) => Math.min(Math.max(ttlMs / 4, 500), 30_000);

/** A live kernel answers in milliseconds; one that is stuck in native code is taken over later, or not at all. */
const ADOPTION_TIMEOUT_MS = 10_000;

/** Whose sessions they are where nobody has to say who they are. */
export const LOCAL_OWNER = "local";

export interface SessionsConfig extends SessionFoldersParts {
  provider: KernelProvider;
  openWorkspace: (dir: string) => Workspace;
  defaultTimeoutMs: number;
  /** 0: never. */
  ttlMs: number;
  keepDays: number;
  maxSessions: number;
  restore?: "none" | "replay";
  /** Kernels kept ready for sessions to come. */
  warm: number;
  now?: () => number;
}

/** What a list shows of a session. */
export interface SessionSummary {
  record: SessionRecord;
  state: "busy" | "idle" | "asleep" | "closed" | "in use elsewhere";
  kernel?: string;
}

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
  readonly #folders: SessionFolders;
  readonly #reserve: Reserve;
  readonly #savedUse = new Map<string, string>();
  readonly #fileWatchers = new Set<FileWatcher>();
  readonly #sweeper: NodeJS.Timeout;
  #disposed: Promise<void> | undefined;

  constructor(config: SessionsConfig) {
    this.#config = config;
    this.#now = config.now ?? Date.now;
    this.#folders = new SessionFolders(config);
    this.#reserve = new Reserve({ ...config, folders: this.#folders });
    this.#sweeper = setInterval(
      () => void this.sweep().catch((error) => config.log.error("sweep failed", error)),
      sweepEveryMs(config.ttlMs || Number.POSITIVE_INFINITY),
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

  async #create(owner: string, { name, env }: { name?: string; env?: string | undefined }): Promise<Session> {
    const id = this.#reserve.take() ?? (await this.#folders.claimNew());
    const now = new Date(this.#now()).toISOString();
    const record: SessionRecord = {
      id,
      owner,
      ...(name ? { name } : {}),
      ...(env ? { env } : {}),
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

  /** The kernels a session can get, without starting one. */
  kernels(signal: AbortSignal): Promise<KernelInfo[]> {
    return this.#config.provider.list(signal);
  }

  /** The environments that `env` can name; none where sessions all run in the same place. */
  async environments(signal: AbortSignal): Promise<Environment[]> {
    return (await this.#config.provider.environments?.(signal)) ?? [];
  }

  /** Ends a session for good. Its files and history can still be read for a while, unless they are to go too. */
  async close(session: Session, { deleteFiles = false } = {}): Promise<void> {
    await session.close("closed");
    this.#open.delete(session.id);
    const { store } = this.#config;
    if (deleteFiles) return store.forget(session.id);
    await this.#putAway({ ...session.record, endedAt: new Date(this.#now()).toISOString() });
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
    const { ttlMs, store, keepDays, log } = this.#config;
    for (const session of this.#open.values()) {
      if (ttlMs > 0 && session.hasKernel && session.idleMs >= ttlMs) {
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
    const oldest = this.#now() - keepDays * 86_400_000;
    for (const record of await store.sessions()) {
      const open = this.#open.get(record.id);
      if (Date.parse(record.lastUsedAt) > oldest || open?.hasKernel || open?.busy) continue;
      if (!open && !(await store.claim(record.id))) continue;
      log.info(`session ${record.id}: not used for ${keepDays} days, forgotten`);
      this.#open.delete(record.id);
      this.#savedUse.delete(record.id);
      await store.forget(record.id);
    }
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
        await this.#putAway(session.record);
      }),
    ).catch((error) => log.error("a session could not be put away", error));
    await provider.dispose();
    await this.#reserve.forget();
  }

  async #find(owner: string, idOrName: string): Promise<Session> {
    this.#refuseWhenDisposed();
    const open = this.#open.get(idOrName);
    if (open?.record.owner === owner) return open;
    const record = await this.#findRecord(owner, idOrName);
    if (!record) throw new CellwrightError("session_not_found", `There is no session \`${idOrName}\`.`);
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

  async #build(record: SessionRecord, loss?: string): Promise<Session> {
    const { provider, store, openWorkspace, log, defaultTimeoutMs, restore = "none" } = this.#config;
    const folder = await this.#folders.of(record.id);
    const losses: Partial<Record<Language, string>> = {};
    if (loss) {
      const history = await store.history(record.id);
      for (const { language } of history) losses[language] = loss;
      // A program that crashed had not saved its latest count.
      record.cells = Math.max(record.cells, history.length);
    }
    return new Session(
      {
        record,
        folder,
        workspace: provider.workspace?.(record.id) ?? openWorkspace(folder.workspaceDir),
        provider,
        store,
        log,
        admit: () => this.#admit(),
        now: this.#now,
        defaultTimeoutMs,
        restore,
        filesChanged: (session, paths) => {
          for (const watcher of this.#fileWatchers) watcher(session, paths);
        },
      },
      losses,
    );
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
    if (this.#disposed) throw new CellwrightError("session_closed", "Cellwright is shutting down.");
  }
}

const lossAfterRestart = `Cellwright was restarted since this session's last cell. ${FRESH_KERNEL_NOW}`;

function stateOf(session: Session | undefined): SessionSummary["state"] {
  if (!session?.hasKernel) return "asleep";
  return session.busy ? "busy" : "idle";
}
