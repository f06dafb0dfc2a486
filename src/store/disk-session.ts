import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { CellwrightError } from "../errors.ts";
import type { Execution } from "../execution.ts";
import { ifExists, writing } from "../system-error.ts";
import { checkFormat, FORMAT } from "./format.ts";
import { Journal, type JournalEntry, type JournalRecord } from "./journal.ts";
import { KeptOutputs, replaceFile } from "./kept-outputs.ts";
import { extractLargeParts, type LargePart, restoreLargeParts } from "./large-parts.ts";
import { LOST_NOTICE, type PastCell, type SessionRecord } from "./store.ts";

/** One session's folder: `session.json`, `journal.ndjson`, `outputs/`. */
export class DiskSession {
  readonly id: string;
  readonly folder: string;
  readonly outputs: KeptOutputs;
  readonly #journal: Journal;
  readonly #maxBytes: number;
  /** Started by this process and not finished: these are running, not lost. */
  readonly #running = new Set<string>();
  #saving: Promise<unknown> = Promise.resolve();
  #prepared: Promise<void> | undefined;

  /** `maxBytes`: limit for history and outputs together. */
  constructor(id: string, folder: string, maxBytes: number) {
    this.id = id;
    this.folder = folder;
    this.#maxBytes = maxBytes;
    this.#journal = new Journal(join(folder, "journal.ndjson"), id);
    const besidesBytes = () => this.#journal.sizeBytes();
    this.outputs = new KeptOutputs({ folder: join(folder, "outputs"), maxBytes, besidesBytes });
  }

  /** Creates the folders once, unless a newer Cellwright's format is there. */
  prepare(): Promise<void> {
    this.#prepared ??= this.#prepare().catch((error) => {
      this.#prepared = undefined;
      throw error;
    });
    return this.#prepared;
  }

  /** Undefined: nothing was saved yet. */
  async record(): Promise<SessionRecord | undefined> {
    const text = await ifExists(readFile(this.#recordPath(), "utf8"));
    if (text === undefined) return undefined;
    const { format, ...record } = JSON.parse(text);
    checkFormat(format, this.id);
    if (record.id !== this.id) throw new Error(`\`${this.#recordPath()}\` is the record of another session.`);
    return record;
  }

  async checkFormat(): Promise<void> {
    const text = await ifExists(readFile(this.#recordPath(), "utf8"));
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
    await this.#append("begin", execution, (sizeBytes) => {
      if (sizeBytes > this.#maxBytes) throw this.#full();
    });
    this.#running.add(execution.id);
  }

  /** Returns notices about what could not be kept. */
  async finish(execution: Execution): Promise<string[]> {
    this.#running.delete(execution.id);
    await this.#append("finish", execution);
    return this.outputs.takeNotices();
  }

  /** All cells without their outputs. `isBusyElsewhere`: another live process may be running the newest one. */
  async cells(isBusyElsewhere: boolean): Promise<PastCell[]> {
    const cells: PastCell[] = [];
    for await (const { execution, large, isLost } of this.#records(isBusyElsewhere)) {
      const own = large.filter(({ place }) => !place.startsWith("outputs/"));
      const { outputs: _, ...cell } = await this.#whole({
        execution: { ...execution, outputs: [] },
        large: own,
        isLost,
      });
      cells.push(cell);
    }
    return cells;
  }

  /** One cell with its outputs. */
  async execution(id: string, isBusyElsewhere: boolean): Promise<Execution | undefined> {
    for await (const record of this.#records(isBusyElsewhere, id)) return this.#whole(record);
    return undefined;
  }

  async history(isBusyElsewhere: boolean): Promise<Execution[]> {
    const history: Execution[] = [];
    for await (const record of this.#records(isBusyElsewhere)) history.push(await this.#whole(record));
    return history;
  }

  /** Finishes all writes and closes the journal; a later write reopens it. */
  async close(): Promise<void> {
    this.#running.clear();
    await this.#saving;
    await this.#journal.close();
  }

  async *#records(isBusyElsewhere: boolean, onlyId?: string): AsyncGenerator<JournaledCell> {
    const entries = await this.#journal.index();
    const newestId = [...entries.keys()].at(-1);
    const wanted: Iterable<[string, JournalEntry | undefined]> =
      onlyId === undefined ? entries : [[onlyId, entries.get(onlyId)]];
    for (const [id, entry] of wanted) {
      const record = entry && (await this.#journal.read(entry));
      if (!record) continue;
      const isRunning = this.#running.has(id) || (isBusyElsewhere && id === newestId);
      const { type, execution, large = [] } = record;
      yield { execution, large, isLost: type !== "finish" && !isRunning };
    }
  }

  async #whole({ execution, large, isLost }: JournaledCell): Promise<Execution> {
    const whole = await restoreLargeParts(execution, large, (name) => this.outputs.read(name));
    return isLost ? lost(whole) : whole;
  }

  #full(): CellwrightError {
    return new CellwrightError(
      "storage_full",
      `The history of session \`${this.id}\` has reached the limit of --disk-mb.`,
      { hint: "Leave out session_id to start a new session, or raise --disk-mb. Nothing was run." },
    );
  }

  async #append(type: JournalRecord["type"], execution: Execution, check?: (sizeBytes: number) => void): Promise<void> {
    const { execution: slim, large } = await extractLargeParts(execution, (bytes, mimeType) =>
      this.outputs.put(bytes, mimeType),
    );
    const record: JournalRecord = large.length > 0 ? { type, execution: slim, large } : { type, execution: slim };
    await writing("the session's journal", () => this.#journal.append(record, check));
  }

  async #prepare(): Promise<void> {
    await this.checkFormat();
    await writing("the session's folder", () => mkdir(this.outputs.folder, { recursive: true, mode: 0o700 }));
  }

  #recordPath(): string {
    return join(this.folder, "session.json");
  }
}

/** A cell as the journal has it, without its large parts. */
interface JournaledCell {
  execution: Execution;
  large: LargePart[];
  /** Its process is gone and did not record its end. */
  isLost: boolean;
}

/** A cell whose end was never recorded. */
export function lost(execution: Execution): Execution {
  return { ...execution, status: "kernel_died", notices: [...execution.notices, LOST_NOTICE] };
}
