import { rm } from "node:fs/promises";
import { join } from "node:path";
import { TextDecoder } from "node:util";
import { FifoReader, makeFifos } from "./fifo.ts";

/** Pairs created at a time: one takes as long as a few. */
const BATCH = 4;
/** Cells whose late output is still read; beyond that, the oldest one's background jobs get SIGPIPE. */
const MAX_LATE = 64;
/** Rate limit for output of background jobs, so that they cannot keep the server busy. */
const LATE_PAUSE_MS = 20;

export type StreamName = "stdout" | "stderr";
type TakeText = (name: StreamName, text: string) => void;

/**
 * The pipes of cells. Each cell has its own two, which tell late output of its background jobs from output of the next
 * cell. They are reused when no process holds them any more.
 */
export class OutputPipes {
  readonly #folder: string;
  readonly #free: string[] = [];
  readonly #used = new Set<CellPipes>();
  #made = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async prepare(): Promise<void> {
    const pairs = Array.from({ length: BATCH }, (_, index) => `${this.#made + index}`);
    await makeFifos(pairs.flatMap((pair) => [this.#path("stdout", pair), this.#path("stderr", pair)]));
    this.#made += BATCH;
    this.#free.push(...pairs);
  }

  async open(take: TakeText): Promise<CellPipes> {
    if (this.#free.length === 0) await this.prepare();
    const pair = this.#free.shift() as string;
    const paths = { stdout: this.#path("stdout", pair), stderr: this.#path("stderr", pair) };
    const pipes: CellPipes = new CellPipes(paths, take, () => {
      if (this.#used.delete(pipes)) this.#free.push(pair);
    });
    this.#used.add(pipes);
    this.#cutOldest();
    return pipes;
  }

  close(): void {
    for (const pipes of this.#used) pipes.destroy();
    this.#used.clear();
  }

  #cutOldest(): void {
    const [oldest] = this.#used;
    if (!oldest || this.#used.size <= MAX_LATE) return;
    // Not reused: a process still holds them.
    this.#used.delete(oldest);
    oldest.destroy();
    for (const path of Object.values(oldest.paths)) void rm(path, { force: true }).catch(() => {});
  }

  #path(name: StreamName, pair: string): string {
    return join(this.#folder, `${name}-${pair}`);
  }
}

/** The text that one cell writes, until its last background job has ended. */
export class CellPipes {
  readonly paths: Record<StreamName, string>;
  readonly #readers: FifoReader[];
  readonly #decoders: Record<StreamName, TextDecoder> = { stdout: decoder(), stderr: decoder() };
  #take: TakeText;
  #isLate = false;

  constructor(paths: Record<StreamName, string>, take: TakeText, ended: () => void) {
    this.paths = paths;
    this.#take = take;
    let open = 2;
    const reader = (name: StreamName): FifoReader => {
      const own: FifoReader = new FifoReader(paths[name], {
        take: (bytes) => {
          this.#decode(name, bytes);
          if (this.#isLate) slowDown(own);
        },
        ended: () => {
          open -= 1;
          if (open === 0) ended();
        },
      });
      return own;
    };
    this.#readers = [reader("stdout"), reader("stderr")];
  }

  pause(): void {
    for (const reader of this.#readers) reader.pause();
  }

  resume(): void {
    for (const reader of this.#readers) reader.resume();
  }

  /** The cell is over: reads what it has written so far. An incomplete character at the end is not waited for. */
  finish(): void {
    for (const reader of this.#readers) reader.drain();
    for (const name of ["stdout", "stderr"] as const) {
      const rest = this.#decoders[name].decode();
      if (rest) this.#take(name, rest);
    }
  }

  /** From now on, output of jobs is late output. */
  leave(take: TakeText): void {
    this.#take = take;
    this.#isLate = true;
    for (const reader of this.#readers) {
      reader.letEnd();
      reader.resume();
    }
  }

  destroy(): void {
    for (const reader of this.#readers) reader.destroy();
  }

  #decode(name: StreamName, bytes: Uint8Array): void {
    const text = this.#decoders[name].decode(bytes, { stream: true });
    if (text) this.#take(name, text);
  }
}

function slowDown(reader: FifoReader): void {
  reader.pause();
  setTimeout(() => reader.resume(), LATE_PAUSE_MS).unref();
}

function decoder(): TextDecoder {
  return new TextDecoder("utf-8", { ignoreBOM: true });
}
