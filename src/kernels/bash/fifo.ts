import { execFile } from "node:child_process";
import { closeSync, constants, openSync, readSync } from "node:fs";
import { type OnReadOpts, Socket, type SocketConstructorOpts } from "node:net";
import { promisify } from "node:util";
import { findProgram } from "../../process/programs.ts";

/** Capacity of a pipe. */
const CHUNK_BYTES = 65_536;
/** Limit of one `drain`, which would not end while a fast process writes to the pipe. */
const MAX_DRAIN_BYTES = 16 * CHUNK_BYTES;

/** Node cannot create FIFOs. */
export async function makeFifos(paths: string[]): Promise<void> {
  await promisify(execFile)(findProgram("mkfifo") ?? "/usr/bin/mkfifo", ["-m", "600", ...paths]);
}

/**
 * The reading end of a FIFO. The pipes of `spawn` are sockets, which cannot be reopened: `echo … >/dev/stderr` would
 * fail.
 */
export class FifoReader {
  readonly #fd: number;
  readonly #socket: Socket;
  readonly #take: (bytes: Uint8Array) => void;
  /** Our own writer: without one, the pipe reports its end before the shell opens it. */
  #writer: number | undefined;
  #open = true;

  constructor(path: string, { take, ended }: { take: (bytes: Uint8Array) => void; ended?: () => void }) {
    this.#take = take;
    this.#fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    this.#writer = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
    const options: SocketConstructorOpts & { onread: OnReadOpts } = {
      fd: this.#fd,
      readable: true,
      writable: false,
      onread: {
        buffer: Buffer.allocUnsafe(CHUNK_BYTES),
        callback: (length, buffer) => {
          take(buffer.subarray(0, length));
          return true;
        },
      },
    };
    this.#socket = new Socket(options);
    this.#socket.on("error", () => {});
    this.#socket.once("end", () => {
      this.#open = false;
    });
    this.#socket.once("close", () => {
      this.#open = false;
      this.#closeWriter();
      ended?.();
    });
  }

  /** Back-pressure: a full pipe blocks the writer. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    if (this.#open) this.#socket.resume();
  }

  /** Reads everything that is in the pipe now, paused or not. */
  drain(): void {
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    for (let total = 0; this.#open && total < MAX_DRAIN_BYTES; ) {
      const length = readNow(this.#fd, buffer);
      if (length === 0) return;
      total += length;
      this.#take(buffer.subarray(0, length));
    }
  }

  /** Closes our writer: the pipe ends when no other process holds it. */
  letEnd(): void {
    this.#closeWriter();
  }

  destroy(): void {
    this.#open = false;
    this.#socket.destroy();
    this.#closeWriter();
  }

  #closeWriter(): void {
    if (this.#writer !== undefined) closeSync(this.#writer);
    this.#writer = undefined;
  }
}

function readNow(fd: number, buffer: Buffer): number {
  try {
    return readSync(fd, buffer);
  } catch {
    // EAGAIN: the pipe is empty.
    return 0;
  }
}
