import type { JupyterChannel } from "./channel.ts";
import { type Connection, ports } from "./connection.ts";
import {
  type ChannelName,
  decodeFrames,
  encodeFrames,
  type JupyterMessage,
  MAX_LARGE_BYTES,
  parentOf,
} from "./message.ts";
import { MessageGate, type Parentage } from "./message-gate.ts";
import { MessageQueue } from "./message-queue.ts";
import { ZmtpSocket } from "./zmtp.ts";

/** With all that is around its content. */
const MAX_MESSAGE_BYTES = MAX_LARGE_BYTES + 1_000_000;
/** Messages without a valid signature before we stop listening: none that is ours is among them. */
const MAX_STRAYS = 1_000;

/** Connects to a kernel's sockets, which need not be there yet. */
export async function connectZmq(connection: Connection): Promise<JupyterChannel> {
  return new ZmqChannel(connection);
}

class ZmqChannel implements JupyterChannel {
  readonly closed: Promise<{ reason: string }>;
  readonly #key: string;
  readonly #sockets: Record<ChannelName, ZmtpSocket>;
  readonly #queue = new MessageQueue();
  #tellClosed: (closed: { reason: string }) => void = () => {};
  readonly #gate = new MessageGate();
  #isClosed = false;
  #strays = 0;

  constructor(connection: Connection) {
    this.#key = connection.key;
    this.closed = new Promise((resolve) => {
      this.#tellClosed = resolve;
    });
    const open = (channel: ChannelName): ZmtpSocket =>
      new ZmtpSocket({
        path: `${connection.prefix}-${ports[channel]}`,
        // One name on all of them, or a question of the kernel's finds no way back.
        ...(channel === "iopub"
          ? { kind: "SUB" as const }
          : { kind: "DEALER" as const, identity: connection.clientId }),
        maxMessageBytes: MAX_MESSAGE_BYTES,
        onMessage: (frames) => this.#take(channel, frames),
        onBroken: (reason) => this.#end(reason),
      });
    // First, so that the first reply does not come before what was shown can.
    const iopub = open("iopub");
    this.#sockets = { iopub, shell: open("shell"), control: open("control"), stdin: open("stdin") };
  }

  async send(message: JupyterMessage): Promise<void> {
    const { channel } = message;
    if (channel === "iopub") throw new TypeError("Nothing is sent on iopub.");
    if (!this.#isClosed) this.#sockets[channel].send(encodeFrames(message, this.#key));
  }

  messages(): AsyncIterable<JupyterMessage> {
    return this.#queue.read();
  }

  holdOutput(held: boolean): void {
    if (held) this.#sockets.iopub.pause();
    else this.#sockets.iopub.resume();
  }

  judgeBy(judge: (parentId: string | undefined) => Parentage): void {
    this.#gate.judge = judge;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const socket of Object.values(this.#sockets)) socket.close();
    this.#queue.end();
    this.#tellClosed({ reason: "The connection to the kernel was closed." });
  }

  #take(channel: ChannelName, frames: Buffer[]): void {
    if (this.#isClosed) return;
    const parent = parentOf(frames);
    const bytes = frames.reduce((sum, frame) => sum + frame.length, 0);
    const verdict = parent ? this.#gate.admit({ parent, bytes }) : "take";
    if (verdict === "end") this.#end("it keeps sending far more than any cell may show");
    if (verdict !== "take") return;
    const message = parent && decodeFrames(channel, frames, this.#key);
    if (message) this.#queue.push({ ...message, buffers: message.buffers.map((bytes) => Uint8Array.from(bytes)) });
    else {
      this.#strays += 1;
      if (this.#strays > MAX_STRAYS) this.#end("it sends what no kernel sends");
    }
  }

  #end(reason: string): void {
    if (this.#isClosed) return;
    this.#tellClosed({ reason: `The connection to the kernel broke: ${reason}.` });
    void this.close();
  }
}
