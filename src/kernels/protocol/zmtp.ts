import { closeSync, constants, fstatSync, openSync } from "node:fs";
import { connect, type Socket } from "node:net";

/**
 * ZeroMQ's wire protocol (https://rfc.zeromq.org/spec/23/) on a Unix socket, as far as a client of kernels needs it.
 * Not ZeroMQ's library, because user code controls the other end: the library buffers a message of any length, frame
 * by frame, before it delivers it.
 */
export interface ZmtpOptions {
  path: string;
  kind: "DEALER" | "SUB";
  /** This client's routing id. */
  identity?: string;
  /** Limit for all frames of one message, with an overhead for each. */
  maxMessageBytes: number;
  /** The frames are valid only during the call: their memory is reused. */
  onMessage(frames: Buffer[]): void;
  /** The other end violated the protocol; the socket is closed. */
  onBroken(reason: string): void;
}

/** Short, to connect as soon as the kernel has created its sockets. */
const FIRST_RETRY_MS = 5;
/** Longer, because a kernel that closed its socket is usually dying. */
const LATER_RETRY_MS = 100;
const MAX_FRAMES = 1_000;
/** Larger messages share one buffer: garbage of this size is collected too late. */
const LARGE_BYTES = 1_000_000;
/** Overhead of one frame, in bytes. */
const FRAME_COST_BYTES = 100;

const GREETING_BYTES = 64;
const MORE = 1;
const LONG = 2;
const COMMAND = 4;

/** One end of a connection, which reconnects until it is closed. */
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

  /** Buffered until the connection is ready. */
  send(frames: Uint8Array[]): void {
    const bytes = encode(frames);
    if (this.#isReady) this.#socket?.write(bytes);
    else this.#waiting.push(bytes);
  }

  /** Back-pressure: the sender blocks once the buffers are full. */
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
        // Subscribe to everything: an empty prefix.
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

/** Linux's O_PATH, missing in Node's constants. */
const O_PATH = 0o10000000;

/**
 * Opens the socket file at exactly this path; undefined if it is not a socket. Code can write to its folder, and a
 * symlink there could make us connect to another program's socket.
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
    // Does not exist yet, or is a symlink.
  }
  close();
  return undefined;
}

/** Parses bytes: the handshake first, then messages. Throws on invalid data. */
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
  /** Called before memory is allocated for the frame. */
  announce(size: number): void;
  frame(flags: number, body: Buffer): void;
}

/** Reads frames, `[flags][length, 1 or 8 bytes][body]`, from bytes that are split anywhere. */
class FrameReader {
  #head = new Filling(2);
  #body: Filling | undefined;
  #large: Buffer | undefined;
  #isLargeUsed = false;

  /** Allows reuse of the large buffer: its content is no longer needed. */
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

/** A buffer of known length that is filled in parts. */
class Filling {
  readonly buffer: Buffer;
  #filled = 0;

  constructor(size: number, room: Buffer = Buffer.allocUnsafe(size)) {
    this.buffer = room;
  }

  get isFull(): boolean {
    return this.#filled === this.buffer.length;
  }

  /** Returns the bytes that did not fit. */
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
