import { closeSync, constants, fstatSync, openSync } from "node:fs";
import { connect, type Socket } from "node:net";

/**
 * ZeroMQ's wire protocol (https://rfc.zeromq.org/spec/23/) on a Unix socket, as far as a client of kernels needs it.
 * Spoken here and not by ZeroMQ's library, because the other end is in the hands of user code: the library takes in
 * messages of any length, frame by frame, before it shows one.
 */
export interface ZmtpOptions {
  path: string;
  kind: "DEALER" | "SUB";
  /** Who we are to the other end. */
  identity?: string;
  /** All frames of one message. Absurd ones are those of a few more bytes. */
  maxMessageBytes: number;
  /** The frames are the caller's until it returns; then their memory is used again. */
  onMessage(frames: Buffer[]): void;
  /** The other end does not keep to the protocol; no more comes. */
  onBroken(reason: string): void;
}

/** We connect before the kernel has its sockets, and want to be there at once when it does. */
const FIRST_RETRY_MS = 5;
/** One that was there and is gone is mostly dying. */
const LATER_RETRY_MS = 100;
const MAX_FRAMES = 1_000;
/** From this size on, one piece of memory is used for many messages: garbage of this size is collected too late. */
const LARGE_BYTES = 1_000_000;
/** What a frame costs beside its bytes. */
const FRAME_COST_BYTES = 100;

const GREETING_BYTES = 64;
const MORE = 1;
const LONG = 2;
const COMMAND = 4;

/** One end of a connection that is made again when it breaks, until it is closed. */
export class ZmtpSocket {
  readonly #options: ZmtpOptions;
  #socket: Socket | undefined;
  #isReady = false;
  #hasBeenReady = false;
  #isClosed = false;
  #isPaused = false;
  #waiting: Buffer[] = [];
  #retry: NodeJS.Timeout | undefined;

  constructor(options: ZmtpOptions) {
    this.#options = options;
    this.#connect();
  }

  /** Goes out when there is a connection. */
  send(frames: Uint8Array[]): void {
    const bytes = encode(frames);
    if (this.#isReady) this.#socket?.write(bytes);
    else this.#waiting.push(bytes);
  }

  /** Whoever sends is held back, once what lies between is full. */
  pause(): void {
    this.#isPaused = true;
    this.#socket?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#socket?.resume();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    this.#socket?.destroy();
    this.#waiting = [];
  }

  #connect(): void {
    const { path, kind, identity } = this.#options;
    const place = openSocketFile(path);
    if (place === undefined) {
      this.#connectLater();
      return;
    }
    const socket = connect(place.path);
    for (const event of ["connect", "close"]) socket.once(event, place.close);
    this.#socket = socket;
    const wire = new Wire(this.#options.maxMessageBytes, {
      ready: () => {
        this.#isReady = this.#hasBeenReady = true;
        // To hear everything, one subscribes to what begins with nothing.
        if (kind === "SUB") socket.write(encode([Buffer.from([1])]));
        for (const bytes of this.#waiting.splice(0)) socket.write(bytes);
      },
      message: (frames) => {
        if (!this.#isClosed) this.#options.onMessage(frames);
      },
    });
    socket.once("connect", () => {
      socket.write(greeting());
      socket.write(readyCommand(kind, identity));
      if (this.#isPaused) socket.pause();
    });
    socket.on("data", (bytes: Buffer) => {
      try {
        wire.take(bytes);
      } catch (error) {
        if (this.#isClosed) return;
        this.close();
        this.#options.onBroken(error instanceof Error ? error.message : String(error));
      }
    });
    socket.on("error", () => {});
    socket.once("close", () => {
      this.#isReady = false;
      this.#connectLater();
    });
  }

  #connectLater(): void {
    if (this.#isClosed) return;
    const pauseMs = this.#hasBeenReady ? LATER_RETRY_MS : FIRST_RETRY_MS;
    this.#retry = setTimeout(() => this.#connect(), pauseMs);
  }
}

/** Linux's O_PATH, which Node does not name. */
const O_PATH = 0o10000000;

/**
 * The socket at exactly this path, or undefined: code can write to its folder, and a symbolic link there would have us
 * connect to another program's socket.
 */
function openSocketFile(path: string): { path: string; close(): void } | undefined {
  if (process.platform !== "linux") return { path, close: () => {} };
  let descriptor: number | undefined;
  const close = () => {
    if (descriptor !== undefined) closeSync(descriptor);
    descriptor = undefined;
  };
  try {
    descriptor = openSync(path, O_PATH | constants.O_NOFOLLOW);
    if (fstatSync(descriptor).isSocket()) return { path: `/proc/self/fd/${descriptor}`, close };
  } catch {
    // Not there yet.
  }
  close();
  return undefined;
}

/** Bytes into a handshake, then into messages. Throws when they are none. */
class Wire {
  readonly #maxBytes: number;
  readonly #tell: { ready(): void; message(frames: Buffer[]): void };
  readonly #greeting = new Filling(GREETING_BYTES);
  readonly #frames = new FrameReader();
  #isGreeted = false;
  #isReady = false;
  #message: Buffer[] = [];
  #bytes = 0;

  constructor(maxBytes: number, tell: { ready(): void; message(frames: Buffer[]): void }) {
    this.#maxBytes = maxBytes;
    this.#tell = tell;
  }

  take(bytes: Buffer): void {
    let rest = bytes;
    if (!this.#isGreeted) {
      rest = this.#greeting.take(rest);
      if (!this.#greeting.isFull) return;
      checkGreeting(this.#greeting.buffer);
      this.#isGreeted = true;
    }
    this.#frames.take(rest, {
      announce: (size) => this.#count(size),
      frame: (flags, body) => this.#add(flags, body),
    });
  }

  #count(size: number): void {
    this.#bytes += size + FRAME_COST_BYTES;
    if (this.#bytes > this.#maxBytes || this.#message.length >= MAX_FRAMES) {
      throw new Error(`it sent a message of more than ${Math.round(this.#maxBytes / 1e6)} MB`);
    }
  }

  #add(flags: number, body: Buffer): void {
    if (flags & COMMAND) {
      this.#bytes = 0;
      if (this.#isReady) return;
      if (body.subarray(0, 6).toString("latin1") !== "\u0005READY") throw new Error("it refused the connection");
      this.#isReady = true;
      this.#tell.ready();
      return;
    }
    if (!this.#isReady) throw new Error("it did not say that it is ready");
    this.#message.push(body);
    if (flags & MORE) return;
    const frames = this.#message;
    this.#message = [];
    this.#bytes = 0;
    this.#tell.message(frames);
    this.#frames.useAgain();
  }
}

interface FrameListener {
  /** Before anything is kept for it. */
  announce(size: number): void;
  frame(flags: number, body: Buffer): void;
}

/** `[flags][length, 1 or 8 bytes][body]`, cut anywhere. */
class FrameReader {
  #head = new Filling(2);
  #body: Filling | undefined;
  #large: Buffer | undefined;
  #isLargeUsed = false;

  /** What has been read is not needed any more. */
  useAgain(): void {
    this.#isLargeUsed = false;
  }

  take(bytes: Buffer, listener: FrameListener): void {
    let rest = bytes;
    for (;;) {
      if (!this.#body) {
        rest = this.#head.take(rest);
        if (!this.#head.isFull) return;
        const { buffer } = this.#head;
        const flags = buffer[0] ?? 0;
        if (flags & LONG && buffer.length === 2) {
          this.#head = new Filling(9);
          this.#head.take(buffer);
          continue;
        }
        const size = flags & LONG ? Number(buffer.readBigUInt64BE(1)) : (buffer[1] ?? 0);
        listener.announce(size);
        this.#body = new Filling(size, this.#room(size));
      }
      rest = this.#body.take(rest);
      if (!this.#body.isFull) return;
      const flags = this.#head.buffer[0] ?? 0;
      const { buffer } = this.#body;
      this.#head = new Filling(2);
      this.#body = undefined;
      listener.frame(flags, buffer);
      if (rest.length === 0) return;
    }
  }

  #room(size: number): Buffer | undefined {
    if (size < LARGE_BYTES || this.#isLargeUsed) return undefined;
    this.#isLargeUsed = true;
    if (this.#large === undefined || this.#large.length < size) this.#large = Buffer.allocUnsafe(size);
    return this.#large.subarray(0, size);
  }
}

/** A piece of known length that comes in parts. */
class Filling {
  readonly buffer: Buffer;
  #filled = 0;

  constructor(size: number, room: Buffer = Buffer.allocUnsafe(size)) {
    this.buffer = room;
  }

  get isFull(): boolean {
    return this.#filled === this.buffer.length;
  }

  /** Returns what was left over. */
  take(bytes: Buffer): Buffer {
    const count = bytes.copy(this.buffer, this.#filled);
    this.#filled += count;
    return bytes.subarray(count);
  }
}

function greeting(): Buffer {
  const bytes = Buffer.alloc(GREETING_BYTES);
  bytes[0] = 0xff;
  bytes[9] = 0x7f;
  bytes[10] = 3;
  bytes.write("NULL", 12, "latin1");
  return bytes;
}

function checkGreeting(bytes: Buffer): void {
  const mechanism = bytes.subarray(12, 32).toString("latin1").replace(/\0+$/, "");
  if (bytes[0] !== 0xff || bytes[9] !== 0x7f || (bytes[10] ?? 0) < 3 || mechanism !== "NULL") {
    throw new Error("it does not speak ZeroMQ's protocol");
  }
}

function readyCommand(kind: string, identity: string | undefined): Buffer {
  const property = (name: string, value: string): Buffer => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(Buffer.byteLength(value));
    return Buffer.concat([Buffer.from([name.length]), Buffer.from(name), length, Buffer.from(value)]);
  };
  const body = Buffer.concat([
    Buffer.from("\u0005READY", "latin1"),
    property("Socket-Type", kind),
    ...(identity === undefined ? [] : [property("Identity", identity)]),
  ]);
  return Buffer.concat([Buffer.from([COMMAND, body.length]), body]);
}

function encode(frames: Uint8Array[]): Buffer {
  const parts = frames.flatMap((frame, index) => {
    const more = index < frames.length - 1 ? MORE : 0;
    if (frame.length < 256) return [Buffer.from([more, frame.length]), frame];
    const head = Buffer.alloc(9);
    head[0] = more | LONG;
    head.writeBigUInt64BE(BigInt(frame.length), 1);
    return [head, frame];
  });
  return Buffer.concat(parts);
}
