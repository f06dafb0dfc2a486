import type { JupyterChannel, Listener } from "./channel.ts";
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
import { ZmtpSocket } from "./zmtp.ts";

/** Content plus the other frames. */
const MAX_MESSAGE_BYTES = MAX_LARGE_BYTES + 1_000_000;
/** Invalid messages before the connection is closed. A kernel sends none. */
const MAX_STRAYS = 1_000;

/** The connection to a kernel's sockets, which need not exist yet. */
export class ZmqChannel implements JupyterChannel {
  readonly closed: Promise<{ reason: string }>;
  readonly #key: string;
  readonly #sockets: Record<ChannelName, ZmtpSocket>;
  #listener: Listener = () => {};
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
        // The same identity on all sockets: the kernel sends its input requests to the identity of the cell's request.
        ...(channel === "iopub"
          ? { kind: "SUB" as const }
          : { kind: "DEALER" as const, identity: connection.clientId }),
        maxMessageBytes: MAX_MESSAGE_BYTES,
        onMessage: (frames) => this.#take(channel, frames),
        onBroken: (reason) => this.#end(reason),
      });
    // First, so that output can arrive before the first reply.
    const iopub = open("iopub");
    this.#sockets = { iopub, shell: open("shell"), control: open("control"), stdin: open("stdin") };
  }

  async send(message: JupyterMessage): Promise<void> {
    const { channel } = message;
    if (channel === "iopub") throw new TypeError("Nothing is sent on iopub.");
    if (!this.#isClosed) this.#sockets[channel].send(encodeFrames(message, this.#key));
  }

  listen(listener: Listener): void {
    this.#listener = listener;
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
    if (message) this.#listener({ ...message, buffers: message.buffers.map((bytes) => Uint8Array.from(bytes)) });
    else {
      this.#strays += 1;
      if (this.#strays > MAX_STRAYS) this.#end("invalid messages on the kernel socket");
    }
  }

  #end(reason: string): void {
    if (this.#isClosed) return;
    this.#tellClosed({ reason: `The connection to the kernel broke: ${reason}.` });
    void this.close();
  }
}
