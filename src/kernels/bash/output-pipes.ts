import { rm } from "node:fs/promises";
import { join } from "node:path";
import { TextDecoder } from "node:util";
import { FifoReader, makeFifos } from "./fifo.ts";

/** Pairs made at a time: making one takes as long as making a few. */
const BATCH = 4;
/** Cells whose background jobs can still be heard; with more, the oldest is cut off and its jobs get SIGPIPE. */
const MAX_LATE = 64;
/** A background job is read this much slower than it may like, so that it cannot keep this program busy. */
const LATE_PAUSE_MS = 20;

export type StreamName = "stdout" | "stderr";
type TakeText = (name: StreamName, text: string) => void;

/**
 * The pipes of cells. Each cell has two of its own, so that what a background job writes later is told apart from what
 * the next cell writes. They are used again when nobody holds them any more.
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
    // Not to be used again: somebody still holds them.
    this.#used.delete(oldest);
    oldest.destroy();
    for (const path of Object.values(oldest.paths)) void rm(path, { force: true }).catch(() => {});
  }

  #path(name: StreamName, pair: string): string {
    return join(this.#folder, `${name}-${pair}`);
  }
}

/** What one cell writes, as text, from its beginning to the end of the last job that it left behind. */
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

  /** The cell is over: takes what it wrote until now. Half a character is half a character. */
  finish(): void {
    for (const reader of this.#readers) reader.drain();
    for (const name of ["stdout", "stderr"] as const) {
      const rest = this.#decoders[name].decode();
      if (rest) this.#take(name, rest);
    }
  }

  /** What jobs write from now on goes elsewhere. */
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
