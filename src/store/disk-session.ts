import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { access, mkdir, open, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Execution } from "../execution.ts";
import { blobName } from "./blob-name.ts";
import { checkFormat, FORMAT } from "./format.ts";
import { Journal, type JournalRecord } from "./journal.ts";
import { bringBack, putAside } from "./large-parts.ts";
import { lost } from "./lost.ts";
import type { SessionRecord } from "./store.ts";
import { ifThere, writing } from "./system-error.ts";

/** One session's folder: `session.json`, `journal.ndjson`, `outputs/`. */
export class DiskSession {
  readonly id: string;
  readonly folder: string;
  readonly #journal: Journal;
  /** Began here and not finished yet: these are running, not lost. */
  readonly #running = new Set<string>();
  #saving: Promise<unknown> = Promise.resolve();
  #prepared: Promise<void> | undefined;

  constructor(id: string, folder: string) {
    this.id = id;
    this.folder = folder;
    this.#journal = new Journal(join(folder, "journal.ndjson"), id);
  }

  /** Makes the folders, unless a newer Cellwright made them otherwise. Once is enough. */
  prepare(): Promise<void> {
    this.#prepared ??= this.#prepare().catch((error) => {
      this.#prepared = undefined;
      throw error;
    });
    return this.#prepared;
  }

  /** Undefined when nothing was saved yet. */
  async record(): Promise<SessionRecord | undefined> {
    const text = await ifThere(readFile(this.#recordPath(), "utf8"));
    if (text === undefined) return undefined;
    const { format, ...record } = JSON.parse(text);
    checkFormat(format, this.id);
    if (record.id !== this.id) throw new Error(`\`${this.#recordPath()}\` is the record of another session.`);
    return record;
  }

  async checkFormat(): Promise<void> {
    const text = await ifThere(readFile(this.#recordPath(), "utf8"));
    checkFormat(/^\s*\{\s*"format":\s*(\d+)/.exec(text ?? "")?.[1], this.id);
  }

  save(record: SessionRecord): Promise<void> {
    const text = `${JSON.stringify({ format: FORMAT, ...record }, undefined, 2)}\n`;
    const turn = this.#saving.then(() =>
      writing("the session's record", () => replaceFile(this.#recordPath(), Buffer.from(text))),
    );
    this.#saving = turn.catch(() => {});
    return turn;
  }

  async begin(execution: Execution): Promise<void> {
    await this.#append("begin", execution);
    this.#running.add(execution.id);
  }

  async finish(execution: Execution): Promise<void> {
    this.#running.delete(execution.id);
    await this.#append("finish", execution);
  }

  /** `isBusyElsewhere` says whether another live process may be running the newest cell at this moment. */
  async history(isBusyElsewhere: boolean): Promise<Execution[]> {
    const latest = new Map<string, JournalRecord>();
    for (const record of await this.#journal.records()) {
      const known = latest.get(record.execution.id);
      if (known?.type === "finish" && record.type === "begin") continue;
      latest.set(record.execution.id, record);
    }
    const newestId = [...latest.keys()].at(-1);
    const history: Execution[] = [];
    for (const { type, execution, large } of latest.values()) {
      const whole = await bringBack(execution, large ?? [], (name) => this.output(name));
      const isRunning = this.#running.has(execution.id) || (isBusyElsewhere && execution.id === newestId);
      history.push(type === "finish" || isRunning ? whole : lost(whole));
    }
    return history;
  }

  /** Keeps bytes under a name made from them. */
  async putOutput(bytes: Uint8Array, mimeType: string): Promise<string> {
    const name = blobName(bytes, mimeType);
    const path = this.outputPath(name);
    const isThere = await access(path).then(
      () => true,
      () => false,
    );
    if (!isThere) await writing("an output", () => replaceFile(path, bytes));
    return name;
  }

  async output(name: string): Promise<Uint8Array | undefined> {
    const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0);
    const handle = await ifThere(open(this.outputPath(name), flags));
    try {
      return await handle?.readFile();
    } finally {
      await handle?.close();
    }
  }

  outputPath(name: string): string {
    return join(this.folder, "outputs", name);
  }

  /** Ends all writing and closes the journal; a later write opens it again. */
  async close(): Promise<void> {
    this.#running.clear();
    await this.#saving;
    await this.#journal.close();
  }

  async #append(type: JournalRecord["type"], execution: Execution): Promise<void> {
    const { execution: slim, large } = await putAside(execution, (bytes, mimeType) => this.putOutput(bytes, mimeType));
    const record: JournalRecord = large.length > 0 ? { type, execution: slim, large } : { type, execution: slim };
    await writing("the session's journal", () => this.#journal.append(record));
  }

  async #prepare(): Promise<void> {
    await this.checkFormat();
    await writing("the session's folder", () => mkdir(this.outputPath(""), { recursive: true, mode: 0o700 }));
  }

  #recordPath(): string {
    return join(this.folder, "session.json");
  }
}

/** At every moment the file is either the old one or the new one, whole. */
async function replaceFile(path: string, bytes: Uint8Array): Promise<void> {
  const temporary = join(path, "..", `.${randomUUID()}.tmp`);
  try {
    await writeFile(temporary, bytes, { mode: 0o600, flag: "wx" });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
