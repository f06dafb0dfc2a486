import { statSync, writeSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import type { Execution } from "../execution.ts";
import { ifExists } from "../system-error.ts";
import { checkFormat, FORMAT } from "./format.ts";
import type { LargePart } from "./large-parts.ts";

/** A line of the journal, after the header. */
export interface JournalRecord {
  type: "begin" | "finish";
  execution: Execution;
  large?: LargePart[];
}

/** Position of the newest line about a cell. */
export interface JournalEntry {
  type: JournalRecord["type"];
  offset: number;
  bytes: number;
}

/** Read buffer size when indexing. */
const CHUNK_BYTES = 256 * 1024;
const LINE_END = 0x0a;

const header = `${JSON.stringify({ cellwright: "journal", format: FORMAT })}\n`;

/**
 * Append-only log of one session's cells, one JSON line each. A crash in mid-write leaves a torn line, which is never
 * read and never continued. Writes are serialized; the file stays open in between.
 */
export class Journal {
  readonly #path: string;
  readonly #sessionId: string;
  #handle: FileHandle | undefined;
  #tail: Promise<unknown> = Promise.resolve();
  /** Index of the lines up to `#indexedBytes`; there may be newer ones. */
  readonly #entries = new Map<string, JournalEntry>();
  #indexedBytes = 0;

  constructor(path: string, sessionId: string) {
    this.#path = path;
    this.#sessionId = sessionId;
  }

  /** Writes nothing if `check`, called with the current size, throws. */
  append(record: JournalRecord, check?: (sizeBytes: number) => void): Promise<void> {
    const line = `${JSON.stringify(record)}\n`;
    return this.#next(async () => {
      check?.(this.sizeBytes());
      await this.#write(line);
    });
  }

  /** Cells by id, in the order they started. Holds one line in memory at a time. */
  index(): Promise<ReadonlyMap<string, JournalEntry>> {
    return this.#next(async () => {
      const handle = await ifExists(open(this.#path, "r"));
      try {
        if (handle) await this.#readOn(handle);
      } finally {
        await handle?.close();
      }
      return new Map(this.#entries);
    });
  }

  /** Undefined: the line is gone. */
  read({ offset, bytes }: JournalEntry): Promise<JournalRecord | undefined> {
    return this.#next(async () => {
      const handle = await ifExists(open(this.#path, "r"));
      try {
        const line = Buffer.alloc(bytes);
        const { bytesRead = 0 } = (await handle?.read(line, 0, bytes, offset)) ?? {};
        const record: unknown = parsed(line.toString("utf8", 0, bytesRead));
        return isRecord(record) ? record : undefined;
      } finally {
        await handle?.close();
      }
    });
  }

  /** Size on disk. Synchronous: it is asked before each cell, and the thread pool would take longer. */
  sizeBytes(): number {
    return statSync(this.#path, { throwIfNoEntry: false })?.size ?? 0;
  }

  close(): Promise<void> {
    return this.#next(async () => {
      await this.#handle?.close();
      this.#handle = undefined;
    });
  }

  async #readOn(handle: FileHandle): Promise<void> {
    const { size } = await handle.stat();
    // The file was replaced.
    if (size < this.#indexedBytes) {
      this.#entries.clear();
      this.#indexedBytes = 0;
    }
    let pieces: Buffer[] = [];
    for (let position = this.#indexedBytes; position < size; ) {
      const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size - position));
      const { bytesRead } = await handle.read(chunk, 0, chunk.length, position);
      if (bytesRead === 0) return;
      let from = 0;
      for (let end = chunk.indexOf(LINE_END); end !== -1 && end < bytesRead; end = chunk.indexOf(LINE_END, from)) {
        const line = Buffer.concat([...pieces, chunk.subarray(from, end)]);
        this.#take(line);
        this.#indexedBytes += line.length + 1;
        pieces = [];
        from = end + 1;
      }
      pieces.push(chunk.subarray(from, bytesRead));
      position += bytesRead;
    }
    // The last line may be incomplete; it is read again the next time.
    this.#take(Buffer.concat(pieces));
  }

  #take(line: Buffer): void {
    const record: unknown = parsed(line.toString());
    const offset = this.#indexedBytes;
    if (offset === 0) checkFormat((record as Record<string, unknown> | undefined)?.format, this.#sessionId);
    if (offset === 0 || !isRecord(record)) return;
    const { type, execution } = record;
    if (type === "begin" && this.#entries.get(execution.id)?.type === "finish") return;
    this.#entries.set(execution.id, { type, offset, bytes: line.length });
  }

  #next<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#tail.then(work);
    this.#tail = turn.catch(() => {});
    return turn;
  }

  async #write(line: string): Promise<void> {
    let before = "";
    if (!this.#handle) {
      this.#handle = await open(this.#path, "a+", 0o600);
      before = await this.#repair(this.#handle);
    }
    try {
      await appendWhole(this.#handle, before + line);
    } catch (error) {
      // The line may be written in part. Reopening the file finds out.
      await this.#handle.close();
      this.#handle = undefined;
      throw error;
    }
  }

  /** Text that must precede the next line. */
  async #repair(handle: FileHandle): Promise<string> {
    const { size } = await handle.stat();
    const start = (await handle.read(Buffer.alloc(256), 0, 256, 0)).buffer.toString("utf8", 0, Math.min(size, 256));
    if (!start.includes("\n")) {
      await handle.truncate(0);
      return header;
    }
    checkFormat(parsed(start.slice(0, start.indexOf("\n")))?.format, this.#sessionId);
    const last = await handle.read(Buffer.alloc(1), 0, 1, size - 1);
    return last.buffer.toString() === "\n" ? "" : "\n";
  }
}

/**
 * Short lines are written synchronously: that takes about 10 µs, the thread pool ten times as long, and a cell's reply
 * waits for it.
 */
async function appendWhole(handle: FileHandle, text: string): Promise<void> {
  const bytes = Buffer.from(text);
  const written = bytes.length <= SHORT_BYTES ? writeSync(handle.fd, bytes) : 0;
  if (written < bytes.length) await handle.appendFile(bytes.subarray(written));
}

const SHORT_BYTES = 64 * 1024;

/** Undefined for a torn line. */
function parsed(line: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function isRecord(value: unknown): value is JournalRecord {
  const record = value as Partial<JournalRecord> | null | undefined;
  return (record?.type === "begin" || record?.type === "finish") && typeof record.execution?.id === "string";
}
