import { setTimeout as pause } from "node:timers/promises";
import type WebSocket from "ws";
import { CellwrightError } from "../../../errors.ts";
import type { JupyterChannel, Listener } from "../../protocol/channel.ts";
import type { JupyterMessage } from "../../protocol/message.ts";
import { deferred } from "../../starting.ts";
import { whyNoAnswer } from "./http.ts";
import { decodeMessage, encodeMessage } from "./wire.ts";

export interface SocketTimes {
  /** Ping interval. After two of them without a sign of life, the connection is dead; see MAX_PATIENCE. */
  pingMs: number;
  /** A server that is unreachable for this long is gone. */
  unreachableMs: number;
  /** Whether each message is acknowledged at once (see `#acknowledge`); false only for benchmarks. */
  acknowledges: boolean;
}

export interface SocketParts extends Partial<SocketTimes> {
  /** Opens a connecting socket, always for the same kernel. Each number counts as another client for the server. */
  open: (client: number) => WebSocket;
  /** For messages. */
  serverName: string;
}

const PING_MS = 10_000;
const UNREACHABLE_MS = 20_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;
/**
 * Each silent connection in a row gets twice the time of the one before, up to this factor. A busy server is silent while
 * it attaches a connection to its kernel, and dropping that one blocks it for seconds: it would never be ready.
 */
const MAX_PATIENCE = 8;
/** Maximum number of buffered messages while there is no connection. */
const MAX_UNSENT = 1_000;

/**
 * The channel to a kernel on a Jupyter server. It reconnects when a connection breaks, and the server then replays what
 * the kernel sent meanwhile. Messages in flight may be lost in both directions: `onReconnect` is called.
 */
export class WebSocketChannel implements JupyterChannel {
  readonly #closing = deferred<{ reason: string }>();
  readonly closed = this.#closing.promise;
  readonly #parts: SocketParts;
  readonly #pingMs: number;
  readonly #listeners = new Set<() => void>();
  readonly #ending = new AbortController();
  #listener: Listener = () => {};
  #socket: WebSocket | undefined;
  #unsent: JupyterMessage[] = [];
  #client = 0;
  #heard = 0;
  #patience = 1;
  #acknowledging = false;
  #isHeld = false;

  constructor(parts: SocketParts) {
    this.#parts = parts;
    this.#pingMs = parts.pingMs ?? PING_MS;
  }

  /** The first connection; it is not retried. */
  async connect(signal: AbortSignal): Promise<void> {
    const attempt = await this.#attempt(signal);
    if ("socket" in attempt) this.#use(attempt.socket);
    else {
      this.#end("The connection was never made.");
      signal.throwIfAborted();
      throw attempt.error;
    }
  }

  get isConnected(): boolean {
    return this.#socket !== undefined;
  }

  /** Called after each reconnect. */
  onReconnect(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /**
   * Makes another connection, as another client: the server passes its sockets to the kernel on from connection to
   * connection of a client, and they may be dead. What it has buffered for the old client is lost.
   */
  reconnect(): void {
    this.#client += 1;
    this.#socket?.terminate();
  }

  async send(message: JupyterMessage): Promise<void> {
    if (this.#ending.signal.aborted) return;
    if (this.#socket) this.#socket.send(encodeMessage(message, this.#socket.protocol));
    else if (this.#unsent.length < MAX_UNSENT) this.#unsent.push(message);
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  /** Also holds back replies, which use the same socket. The kernel's messages are buffered by the server. */
  holdOutput(held: boolean): void {
    this.#isHeld = held;
    if (held) this.#socket?.pause();
    else this.#socket?.resume();
  }

  async close(): Promise<void> {
    this.#end("The connection to the kernel was closed.");
  }

  /** An open socket, or the error and whether a retry makes sense. */
  #attempt(signal: AbortSignal): Promise<{ socket: WebSocket } | { error: CellwrightError; isFinal: boolean }> {
    const { serverName } = this.#parts;
    const both = AbortSignal.any([signal, this.#ending.signal]);
    return new Promise((resolve) => {
      const socket = this.#parts.open(this.#client);
      const stop = () => socket.terminate();
      const settle = (result: { socket: WebSocket } | { error: CellwrightError; isFinal: boolean }) => {
        both.removeEventListener("abort", stop);
        resolve(result);
        if ("error" in result) socket.terminate();
      };
      both.addEventListener("abort", stop);
      socket.on("error", (cause) => {
        const message = `The Jupyter server at ${serverName} cannot be reached: ${whyNoAnswer(cause)}.`;
        settle({ error: new CellwrightError("server_unreachable", message), isFinal: false });
      });
      socket.once("unexpected-response", (_request, { statusCode = 0 }) => {
        settle({ error: refusal(statusCode, serverName), isFinal: statusCode < 500 && statusCode !== 429 });
      });
      socket.once("open", () => settle({ socket }));
      if (both.aborted) stop();
    });
  }

  #use(socket: WebSocket): void {
    if (this.#ending.signal.aborted) {
      socket.terminate();
      return;
    }
    this.#socket = socket;
    this.#heard = performance.now();
    const hear = () => {
      this.#heard = performance.now();
      this.#patience = 1;
    };
    socket.on("message", (data: Buffer, isBinary) => {
      hear();
      this.#acknowledge(socket);
      const message = decodeMessage(data, isBinary, socket.protocol);
      if (message && socket === this.#socket) this.#listener(message);
    });
    socket.on("pong", hear);
    const watch = setInterval(() => {
      if (this.#isHeld) this.#heard = performance.now();
      else if (performance.now() - this.#heard >= 2 * this.#pingMs * this.#patience) {
        this.#patience = Math.min(2 * this.#patience, MAX_PATIENCE);
        socket.terminate();
      } else socket.ping();
    }, this.#pingMs);
    watch.unref();
    socket.once("close", () => {
      clearInterval(watch);
      if (this.#socket !== socket) return;
      this.#socket = undefined;
      void this.#reconnect();
    });
    if (this.#isHeld) socket.pause();
    for (const message of this.#unsent.splice(0)) void this.send(message);
  }

  /**
   * Servers wait for a TCP acknowledgement before they send the next small message (Nagle), and this system delays it
   * until it has data to send. An unsolicited pong is such data: it reduces the time of a cell to a fifth.
   */
  #acknowledge(socket: WebSocket): void {
    if (this.#acknowledging || this.#parts.acknowledges === false) return;
    this.#acknowledging = true;
    setImmediate(() => {
      this.#acknowledging = false;
      if (socket.readyState === socket.OPEN) socket.pong();
    });
  }

  async #reconnect(): Promise<void> {
    const { unreachableMs = UNREACHABLE_MS } = this.#parts;
    const since = performance.now();
    const { signal } = this.#ending;
    let waitMs = FIRST_PAUSE_MS;
    while (!signal.aborted) {
      const left = unreachableMs - (performance.now() - since);
      const attempt = await this.#attempt(AbortSignal.timeout(Math.ceil(Math.max(1, left))));
      if ("socket" in attempt) {
        // `#use` sends the buffered messages first. Then the listeners recover what was lost.
        this.#use(attempt.socket);
        for (const listener of this.#listeners) listener();
        return;
      }
      if (attempt.isFinal || performance.now() - since + waitMs > unreachableMs) {
        const during = attempt.isFinal ? "" : ` It was tried for ${Math.round(unreachableMs / 1000)} s.`;
        this.#end(`${attempt.error.message}${during}`);
        return;
      }
      await pause(waitMs, undefined, { signal }).catch(() => {});
      waitMs = Math.min(waitMs * 2, LONGEST_PAUSE_MS);
    }
  }

  #end(reason: string): void {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort();
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.terminate();
    this.#closing.resolve({ reason });
  }
}

function refusal(status: number, serverName: string): CellwrightError {
  const server = `The Jupyter server at ${serverName}`;
  if (status === 404) return new CellwrightError("kernel_not_found", `${server} no longer has the kernel.`);
  if (status === 401 || status === 403) return new CellwrightError("server_refused", `${server} refuses the token.`);
  if (status >= 500) return new CellwrightError("server_unreachable", `${server} answers with an error (${status}).`);
  return new CellwrightError("server_refused", `${server} refuses the connection to the kernel (${status}).`);
}
