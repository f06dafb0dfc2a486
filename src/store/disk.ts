import { randomUUID } from "node:crypto";
import { mkdir, readdir, rename, rmdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { CellwrightError } from "../errors.ts";
import type { Execution } from "../execution.ts";
import type { Log } from "../log.ts";
import { removeFolder } from "../process/remove-folder.ts";
import { writing } from "../system-error.ts";
import { blobUri, isSessionId, mimeTypeOf, parseBlobUri } from "./blob-name.ts";
import { type Claimant, claim, holder, REFRESH_MS, refresh, release, thisClaimant } from "./claim.ts";
import { DiskSession } from "./disk-session.ts";
import { FileSpill } from "./spill.ts";
import type { Blob, PastCell, SessionRecord, Spill, Store } from "./store.ts";

/** Limit of concurrent reads: fast enough, and leaves file descriptors to others. */
const READ_AT_ONCE = 32;

/**
 * Opens or creates a store in plain files: `sessions/<id>/` for each session, unless `sessionsDir` is given; `trash/`
 * beside it for folders that are being removed.
 */
export async function openDiskStore({ dataDir, sessionsDir, maxSessionMb, log }: DiskStoreParts): Promise<Store> {
  const folders = {
    sessions: sessionsDir ?? join(dataDir, "sessions"),
    // On the same disk as the sessions, because removal renames first.
    trash: sessionsDir === undefined ? join(dataDir, "trash") : join(sessionsDir, ".trash"),
  };
  for (const folder of Object.values(folders)) await mkdir(folder, { recursive: true, mode: 0o700 });
  const store = new DiskStore(folders, { log, maxSessionMb }, await thisClaimant());
  store.start();
  return store;
}

export interface DiskStoreParts {
  dataDir: string;
  /** Where sessions are, if not in the data folder. */
  sessionsDir?: string | undefined;
  /** Limit for one session's history and outputs together. */
  maxSessionMb?: number | undefined;
  log: Log;
}

class DiskStore implements Store {
  readonly #sessionsDir: string;
  readonly #trashDir: string;
  readonly #log: Log;
  readonly #claimant: Claimant;
  readonly #maxSessionBytes: number;
  /** Sessions being written to; others take no memory. */
  readonly #open = new Map<string, DiskSession>();
  readonly #claimed = new Set<string>();
  readonly #spills = new Map<string, FileSpill>();
  readonly #unreadable = new Set<string>();
  readonly #disposing = new AbortController();
  #cleaning: Promise<void> | undefined;
  #refreshing: NodeJS.Timeout | undefined;

  constructor(
    folders: { sessions: string; trash: string },
    { log, maxSessionMb = Number.POSITIVE_INFINITY }: Pick<DiskStoreParts, "log" | "maxSessionMb">,
    claimant: Claimant,
  ) {
    this.#maxSessionBytes = maxSessionMb * 1024 * 1024;
    this.#sessionsDir = folders.sessions;
    this.#trashDir = folders.trash;
    this.#log = log;
    this.#claimant = claimant;
  }

  async sessions(): Promise<SessionRecord[]> {
    const ids = (await readdir(this.#sessionsDir)).filter(isSessionId);
    const records: SessionRecord[] = [];
    for (let start = 0; start < ids.length; start += READ_AT_ONCE) {
      const batch = await Promise.all(ids.slice(start, start + READ_AT_ONCE).map((id) => this.#record(id)));
      records.push(...batch.filter((record) => record !== undefined));
    }
    return records;
  }

  async claim(sessionId: string): Promise<boolean> {
    const session = this.#session(sessionId);
    await session.checkFormat();
    if (!(await writing("the session's lock", () => claim(session.folder, this.#claimant)))) return false;
    this.#claimed.add(sessionId);
    return true;
  }

  async claimedBy(sessionId: string): Promise<string | undefined> {
    const other = await holder(this.#session(sessionId).folder, this.#claimant);
    if (!other) return undefined;
    const isHere = other.place === this.#claimant.place;
    return `process ${other.pid} ${isHere ? "on this machine" : "in another container or on another machine"}`;
  }

  async release(sessionId: string): Promise<void> {
    await this.#close(sessionId);
    if (!this.#claimed.delete(sessionId)) return;
    try {
      await release(this.#session(sessionId).folder, this.#claimant);
    } catch (error) {
      // The claim stays until this process ends, which releases it as well.
      this.#log.warn(`session ${sessionId}: cannot be released`, error);
    }
  }

  async saveSession(record: SessionRecord): Promise<void> {
    const session = await this.#prepared(record.id);
    await session.save(record);
  }

  async begin(sessionId: string, execution: Execution): Promise<void> {
    const session = await this.#prepared(sessionId);
    await session.begin(execution);
  }

  async finish(sessionId: string, execution: Execution): Promise<string[]> {
    return this.#kept(sessionId).finish(execution);
  }

  async history(sessionId: string): Promise<Execution[]> {
    return this.#session(sessionId).history(await this.#isElsewhere(sessionId));
  }

  async cells(sessionId: string): Promise<PastCell[]> {
    return this.#session(sessionId).cells(await this.#isElsewhere(sessionId));
  }

  async execution(sessionId: string, executionId: string): Promise<Execution | undefined> {
    return this.#session(sessionId).execution(executionId, await this.#isElsewhere(sessionId));
  }

  async putBlob(sessionId: string, bytes: Uint8Array, mimeType: string): Promise<string> {
    const session = await this.#prepared(sessionId);
    const name = await session.outputs.put(bytes, mimeType);
    if (name === undefined) {
      throw new CellwrightError("storage_full", "The output is too large to be kept within --disk-mb.");
    }
    return blobUri(sessionId, name);
  }

  openSpill(sessionId: string, name: string, maxBytes: number): Spill {
    const uri = blobUri(sessionId, name);
    // The session stays in memory from the spill's first text on, so that its size counts toward the limit.
    const { outputs } = this.#kept(sessionId);
    const onEnd = (error?: unknown) => {
      this.#spills.delete(uri);
      outputs
        .spilled(name)
        .catch((reason) => this.#log.warn(`session ${sessionId}: cannot remove old outputs`, reason));
      if (error) this.#log.warn(`session ${sessionId}: the full text of an output was cut short`, error);
    };
    const limit = outputs.spillLimit(maxBytes);
    const spill = new FileSpill({ uri, path: outputs.path(name), maxBytes: limit, onEnd });
    this.#spills.set(uri, spill);
    return spill;
  }

  async getBlob(uri: string): Promise<Blob | undefined> {
    const parsed = parseBlobUri(uri);
    if (!parsed) return undefined;
    this.#spills.get(uri)?.flush();
    const bytes = await this.#session(parsed.sessionId).outputs.read(parsed.name);
    return bytes && { bytes, mimeType: mimeTypeOf(parsed.name) };
  }

  async forget(sessionId: string): Promise<void> {
    const { folder } = this.#session(sessionId);
    if (!(await this.claim(sessionId))) {
      throw new CellwrightError("session_in_use", `Session \`${sessionId}\` is open in another process.`);
    }
    for (const spill of this.#spills.values()) {
      if (parseBlobUri(spill.uri)?.sessionId === sessionId) await spill.close();
    }
    await this.#close(sessionId);
    this.#claimed.delete(sessionId);
    const trash = join(this.#trashDir, randomUUID());
    await rename(folder, trash);
    await removeFolder(trash, this.#disposing.signal);
  }

  async removeOrphans(unusedForMs: number): Promise<void> {
    const newestMs = Date.now() - unusedForMs;
    for (const name of await readdir(this.#sessionsDir)) {
      const folder = join(this.#sessionsDir, name);
      if (folder === this.#trashDir) continue;
      const isOld = await stat(folder).then(
        (found) => found.isDirectory() && found.mtimeMs < newestMs,
        () => false,
      );
      // `rmdir` fails if the folder is not empty or a session has just started in it.
      if (isOld) await rmdir(folder).catch(() => {});
    }
  }

  async folder(sessionId: string): Promise<string> {
    const session = await this.#prepared(sessionId);
    return session.folder;
  }

  async dispose(): Promise<void> {
    this.#disposing.abort();
    clearInterval(this.#refreshing);
    for (const spill of this.#spills.values()) await spill.close();
    for (const id of this.#open.keys()) await this.#close(id);
    for (const id of this.#claimed) await this.release(id);
    await this.#cleaning;
  }

  /** Starts the background work, which runs until the store is disposed. */
  start(): void {
    this.#cleaning = this.#emptyTrash().catch((error) => this.#log.warn("cannot empty the trash", error));
    this.#refreshing = setInterval(() => void this.#refresh(), REFRESH_MS).unref();
  }

  async #refresh(): Promise<void> {
    for (const id of this.#claimed) {
      const isOurs = await refresh(this.#session(id).folder, this.#claimant).catch(() => true);
      if (!isOurs && this.#claimed.has(id)) this.#log.error(`session ${id} was taken over by another process`);
    }
  }

  /** Finishes removals that a previous process left unfinished. */
  async #emptyTrash(): Promise<void> {
    for (const name of await readdir(this.#trashDir)) {
      await removeFolder(join(this.#trashDir, name), this.#disposing.signal);
    }
  }

  async #isElsewhere(sessionId: string): Promise<boolean> {
    return !this.#claimed.has(sessionId) && (await this.claimedBy(sessionId)) !== undefined;
  }

  #session(id: string): DiskSession {
    const open = this.#open.get(id);
    if (open) return open;
    if (!isSessionId(id)) throw new CellwrightError("session_not_found", "There is no session with this id.");
    return new DiskSession(id, join(this.#sessionsDir, id), this.#maxSessionBytes);
  }

  /** For writing: the journal stays open until the session is released. */
  #kept(id: string): DiskSession {
    const session = this.#session(id);
    this.#open.set(id, session);
    return session;
  }

  async #prepared(id: string): Promise<DiskSession> {
    const session = this.#kept(id);
    await session.prepare();
    return session;
  }

  async #close(id: string): Promise<void> {
    const session = this.#open.get(id);
    this.#open.delete(id);
    try {
      await session?.close();
    } catch (error) {
      this.#log.warn(`session ${id}: cannot close its journal`, error);
    }
  }

  async #record(id: string): Promise<SessionRecord | undefined> {
    try {
      return await this.#session(id).record();
    } catch (error) {
      if (!this.#unreadable.has(id)) this.#log.warn(`session ${id} is skipped: its record cannot be read`, error);
      this.#unreadable.add(id);
      return undefined;
    }
  }
}
