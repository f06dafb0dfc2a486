import type { Dealer, Subscriber } from "zeromq";
import { CellwrightError } from "../../errors.ts";
import type { JupyterChannel } from "./channel.ts";
import { type Connection, ports } from "./connection.ts";
import { type ChannelName, decodeFrames, encodeFrames, type JupyterMessage } from "./message.ts";
import { MessageQueue } from "./message-queue.ts";

/** We connect before the kernel has its sockets, and want to be there at once when it does. ZeroMQ's own is 100. */
const RECONNECT_MS = 5;
/** Messages of a cell that wait in our process for a reader. The kernel waits with the rest (see host/outbox.py). */
const OUTPUT_HIGH_WATER_MARK = 256;

/** Connects to a kernel's sockets, which need not be there yet. */
export async function connectZmq(connection: Connection): Promise<JupyterChannel> {
  return new ZmqChannel(connection, await loadZmq());
}

type Zmq = typeof import("zeromq");

async function loadZmq(): Promise<Zmq> {
  try {
    return await import("zeromq");
  } catch (cause) {
    throw new CellwrightError("kernel_start_failed", "ZeroMQ, which local kernels need, does not load here.", {
      cause,
      hint:
        "It comes ready for Linux and macOS on x64 and arm64 with Node 22 and later, and for Linux x64 with glibc on " +
        "Node 20. Use such a Node, or --kernel wasm.",
    });
  }
}

class ZmqChannel implements JupyterChannel {
  readonly closed: Promise<{ reason: string }>;
  readonly #key: string;
  readonly #dealers: Record<Exclude<ChannelName, "iopub">, Dealer>;
  readonly #subscriber: Subscriber;
  readonly #queue = new MessageQueue();
  readonly #sending = new Map<ChannelName, Promise<void>>();
  #tellClosed: (closed: { reason: string }) => void = () => {};
  #isClosed = false;
  #release: (() => void) | undefined;
  #released: Promise<void> | undefined;

  constructor(connection: Connection, zmq: Zmq) {
    this.#key = connection.key;
    this.closed = new Promise((resolve) => {
      this.#tellClosed = resolve;
    });
    const common = { linger: 0, reconnectInterval: RECONNECT_MS };
    const address = (port: number): string => `ipc://${connection.prefix}-${port}`;
    // First, so that the first reply does not come before what was shown can.
    this.#subscriber = new zmq.Subscriber({ ...common, receiveHighWaterMark: OUTPUT_HIGH_WATER_MARK });
    this.#subscriber.connect(address(ports.iopub));
    this.#subscriber.subscribe();
    const dealer = (port: number): Dealer => {
      // One name on all of them, or a question of the kernel's finds no way back.
      const routingId = connection.clientId;
      const socket = new zmq.Dealer({ ...common, routingId, receiveHighWaterMark: 0, sendHighWaterMark: 0 });
      socket.connect(address(port));
      return socket;
    };
    this.#dealers = { shell: dealer(ports.shell), control: dealer(ports.control), stdin: dealer(ports.stdin) };
    void this.#pump("iopub", this.#subscriber);
    for (const [name, socket] of Object.entries(this.#dealers)) void this.#pump(name as ChannelName, socket);
  }

  async send(message: JupyterMessage): Promise<void> {
    const { channel } = message;
    if (channel === "iopub") throw new TypeError("Nothing is sent on iopub.");
    const frames = encodeFrames(message, this.#key);
    // A socket takes one message at a time.
    const sent = (this.#sending.get(channel) ?? Promise.resolve()).then(async () => {
      try {
        if (!this.#isClosed) await this.#dealers[channel].send(frames);
      } catch (error) {
        if (!this.#isClosed) this.#end(error);
      }
    });
    this.#sending.set(channel, sent);
    await sent;
  }

  messages(): AsyncIterable<JupyterMessage> {
    return this.#queue.read();
  }

  holdOutput(held: boolean): void {
    if (held) {
      this.#released ??= new Promise((resolve) => {
        this.#release = resolve;
      });
    } else {
      this.#release?.();
      this.#released = this.#release = undefined;
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.holdOutput(false);
    for (const socket of [this.#subscriber, ...Object.values(this.#dealers)]) socket.close();
    this.#queue.end();
    this.#tellClosed({ reason: "The connection to the kernel was closed." });
  }

  async #pump(channel: ChannelName, socket: Dealer | Subscriber): Promise<void> {
    try {
      while (!this.#isClosed) {
        if (channel === "iopub" && this.#released) await this.#released;
        const message = decodeFrames(channel, await socket.receive(), this.#key);
        if (message) this.#queue.push(message);
      }
    } catch (error) {
      if (!this.#isClosed) this.#end(error);
    }
  }

  #end(error: unknown): void {
    this.#tellClosed({
      reason: `The connection to the kernel broke: ${error instanceof Error ? error.message : error}`,
    });
    void this.close();
  }
}
