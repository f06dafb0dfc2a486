import { setTimeout as pause } from "node:timers/promises";
import type WebSocket from "ws";
import { CellwrightError } from "../../../errors.ts";
import type { JupyterChannel } from "../channel.ts";
import type { JupyterMessage } from "../message.ts";
import { MessageQueue } from "../message-queue.ts";
import { whyNoAnswer } from "./http.ts";
import { decodeMessage, encodeMessage } from "./wire.ts";

export interface SocketTimes {
  /** How often a silent server is asked for a sign of life. Two such times without one: the connection is dead. */
  pingMs: number;
  /** A server that cannot be reached for so long is gone. */
  unreachableMs: number;
  /** Whether each message is acknowledged at once (see `#acknowledge`); for measuring what that is worth. */
  acknowledges: boolean;
}

export interface SocketParts extends Partial<SocketTimes> {
  /** A socket that is about to connect, always for the same kernel and client. */
  open: () => WebSocket;
  /** For sentences. */
  serverName: string;
}

const PING_MS = 10_000;
const UNREACHABLE_MS = 20_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;
/** Waiting to be sent while there is no connection. */
const MAX_UNSENT = 1_000;

/**
 * The way to a kernel of a Jupyter server. A connection that breaks is made again, and the server then gives what the
 * kernel said meanwhile. What was under way when it broke may be lost, in both directions: `onReconnect` is told.
 */
export class WebSocketChannel implements JupyterChannel {
  readonly closed: Promise<{ reason: string }>;
  readonly #parts: SocketParts;
  readonly #pingMs: number;
  readonly #queue = new MessageQueue();
  readonly #listeners = new Set<() => void>();
  readonly #ending = new AbortController();
  #tellClosed: (closed: { reason: string }) => void = () => {};
  #socket: WebSocket | undefined;
  #unsent: JupyterMessage[] = [];
  #heard = 0;
  #acknowledging = false;
  #isHeld = false;

  constructor(parts: SocketParts) {
    this.#parts = parts;
    this.#pingMs = parts.pingMs ?? PING_MS;
    this.closed = new Promise((resolve) => {
      this.#tellClosed = resolve;
    });
  }

  /** The first connection, which is not tried twice. */
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

  /** Called when there is a connection again. */
  onReconnect(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Without a connection one is being made already. */
  reconnect(): void {
    this.#socket?.terminate();
  }

  async send(message: JupyterMessage): Promise<void> {
    if (this.#ending.signal.aborted) return;
    if (this.#socket) this.#socket.send(encodeMessage(message, this.#socket.protocol));
    else if (this.#unsent.length < MAX_UNSENT) this.#unsent.push(message);
  }

  messages(): AsyncIterable<JupyterMessage> {
    return this.#queue.read();
  }

  /** Holds back replies as well, which come the same way. What the kernel says meanwhile waits at the server. */
  holdOutput(held: boolean): void {
    this.#isHeld = held;
    if (held) this.#socket?.pause();
    else this.#socket?.resume();
  }

  async close(): Promise<void> {
    this.#end("The connection to the kernel was closed.");
  }

  /** A socket that is open, or why there is none and whether another attempt makes sense. */
  #attempt(signal: AbortSignal): Promise<{ socket: WebSocket } | { error: CellwrightError; isFinal: boolean }> {
    const { serverName } = this.#parts;
    const both = AbortSignal.any([signal, this.#ending.signal]);
    return new Promise((resolve) => {
      const socket = this.#parts.open();
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
    socket.on("message", (data: Buffer, isBinary) => {
      this.#heard = performance.now();
      this.#acknowledge(socket);
      const message = decodeMessage(data, isBinary, socket.protocol);
      if (message && socket === this.#socket) this.#queue.push(message);
    });
    socket.on("pong", () => {
      this.#heard = performance.now();
    });
    const watch = setInterval(() => {
      if (this.#isHeld) this.#heard = performance.now();
      else if (performance.now() - this.#heard >= 2 * this.#pingMs) socket.terminate();
      else socket.ping();
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
   * Servers wait for our system's acknowledgement before they send the next small message, and our system waits for
   * something to send it with. A pong that nobody asked for is that: a cell takes a fifth of the time.
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
        // First those who look after what was lost: what they say comes before anything else.
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
    this.#queue.end();
    this.#tellClosed({ reason });
  }
}

function refusal(status: number, serverName: string): CellwrightError {
  const server = `The Jupyter server at ${serverName}`;
  if (status === 404) return new CellwrightError("kernel_not_found", `${server} does not have the kernel any more.`);
  if (status === 401 || status === 403) return new CellwrightError("server_refused", `${server} refuses the token.`);
  if (status >= 500) return new CellwrightError("server_unreachable", `${server} answers with an error (${status}).`);
  return new CellwrightError("server_refused", `${server} does not connect us with the kernel (${status}).`);
}
