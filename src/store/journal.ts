import { writeSync } from "node:fs";
import { type FileHandle, open, readFile } from "node:fs/promises";
import type { Execution } from "../execution.ts";
import { checkFormat, FORMAT } from "./format.ts";
import type { LargePart } from "./large-parts.ts";
import { ifThere } from "./system-error.ts";

/** One line of a journal, after the first, which names the format. */
export interface JournalRecord {
  type: "begin" | "finish";
  execution: Execution;
  large?: LargePart[];
}

const header = `${JSON.stringify({ cellwright: "journal", format: FORMAT })}\n`;

/**
 * What happened in one session, a line at a time, at the end of a file. A program that dies while it writes leaves half a
 * line, which is never read and never continued. Lines are written one after another; the file stays open in between.
 */
export class Journal {
  readonly #path: string;
  readonly #sessionId: string;
  #handle: FileHandle | undefined;
  #tail: Promise<unknown> = Promise.resolve();

  constructor(path: string, sessionId: string) {
    this.#path = path;
    this.#sessionId = sessionId;
  }

  append(record: JournalRecord): Promise<void> {
    const line = `${JSON.stringify(record)}\n`;
    return this.#next(() => this.#write(line));
  }

  /** Everything that can be read. */
  records(): Promise<JournalRecord[]> {
    return this.#next(async () => {
      const text = (await ifThere(readFile(this.#path, "utf8"))) ?? "";
      const [first = "", ...lines] = text.split("\n");
      checkFormat(parsed(first)?.format, this.#sessionId);
      return lines.map((line): unknown => parsed(line)).filter(isRecord);
    });
  }

  close(): Promise<void> {
    return this.#next(async () => {
      await this.#handle?.close();
      this.#handle = undefined;
    });
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
      // Part of the line may be there. Opening the file again finds out.
      await this.#handle.close();
      this.#handle = undefined;
      throw error;
    }
  }

  /** What has to come before the next line. */
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
 * A short line is written at once: the call takes some 10 µs, going through the thread pool ten times that, and a cell's
 * reply waits for it.
 */
async function appendWhole(handle: FileHandle, text: string): Promise<void> {
  const bytes = Buffer.from(text);
  const written = bytes.length <= SHORT_BYTES ? writeSync(handle.fd, bytes) : 0;
  if (written < bytes.length) await handle.appendFile(bytes.subarray(written));
}

const SHORT_BYTES = 64 * 1024;

/** Undefined for half a line. */
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
