import { execFile } from "node:child_process";
import { closeSync, constants, openSync, readSync } from "node:fs";
import { type OnReadOpts, Socket, type SocketConstructorOpts } from "node:net";
import { promisify } from "node:util";
import { findProgram } from "../../programs.ts";

/** As much as a pipe holds. */
const CHUNK_BYTES = 65_536;
/** Longest that one `drain` reads while somebody goes on writing. */
const MAX_DRAIN_BYTES = 16 * CHUNK_BYTES;

/** Node cannot make them. */
export async function makeFifos(paths: string[]): Promise<void> {
  await promisify(execFile)(findProgram("mkfifo") ?? "/usr/bin/mkfifo", ["-m", "600", ...paths]);
}

/**
 * The reading end of a named pipe. Pipes rather than what `spawn` offers, which are sockets: those cannot be opened
 * again, and `echo … >/dev/stderr` would fail.
 */
export class FifoReader {
  readonly #fd: number;
  readonly #socket: Socket;
  readonly #take: (bytes: Uint8Array) => void;
  /** A writer of our own: without one the pipe is at its end before the shell opens it. */
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

  /** Whoever writes is held back by a full pipe. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    if (this.#open) this.#socket.resume();
  }

  /** Takes all that is in the pipe now, held back or not. */
  drain(): void {
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    for (let total = 0; this.#open && total < MAX_DRAIN_BYTES; ) {
      const length = readNow(this.#fd, buffer);
      if (length === 0) return;
      total += length;
      this.#take(buffer.subarray(0, length));
    }
  }

  /** From now on the pipe ends when nobody else holds it. */
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
    // Nothing is in it: EAGAIN.
    return 0;
  }
}
