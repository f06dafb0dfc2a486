import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  isInitializeRequest,
  isJSONRPCErrorResponse,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type RequestId,
  type TransportSendOptions,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { type RefusalOptions, refuse } from "../http/refuse.ts";
import type { Log } from "../log.ts";
import type { HttpWords } from "../toolsets/toolset.ts";
import type { ServerFactory } from "./server.ts";
import { toWebRequest, writeWebResponse } from "./web.ts";

/** Most clients never end their session. One that returns later has to initialize again, which loses nothing. */
const IDLE_MS = 30 * 60_000;
const SWEEP_MS = 60_000;

/** Limit of concurrent MCP sessions. Each takes a few kB; more than this is a leak. */
const MAX_CONNECTIONS = 1_000;

interface LegacyParts {
  createServer: ServerFactory;
  log: Log;
  words?: HttpWords | undefined;
  idleMs?: number;
  max?: number;
}

/** Legacy clients: one transport each, from `initialize` until the client ends it or the idle timeout. */
export class LegacyConnections {
  readonly #createServer: ServerFactory;
  readonly #log: Log;
  readonly #words: HttpWords | undefined;
  readonly #idleMs: number;
  readonly #max: number;
  readonly #connections = new Map<string, LegacyTransport>();
  readonly #sweeper: NodeJS.Timeout;

  constructor(parts: LegacyParts) {
    this.#createServer = parts.createServer;
    this.#log = parts.log;
    this.#words = parts.words;
    this.#idleMs = parts.idleMs ?? IDLE_MS;
    this.#max = parts.max ?? MAX_CONNECTIONS;
    this.#sweeper = setInterval(() => this.#sweep(), Math.min(SWEEP_MS, this.#idleMs));
    this.#sweeper.unref();
  }

  async handle(
    request: IncomingMessage,
    response: ServerResponse,
    { body, owner }: { body: unknown; owner: string },
  ): Promise<void> {
    const id = request.headers["mcp-session-id"];
    const known = id === undefined ? undefined : this.#connections.get(String(id));
    if (known?.owner === owner && (!this.#words || methods.includes(request.method ?? ""))) {
      return known.serve(request, response, body);
    }
    const begins = id === undefined && request.method === "POST" && isInitializeRequest(body);
    if (!begins) return refuse(response, ...refusalOutside(request, this.#words));
    if (!this.#makeRoom()) {
      return refuse(response, 503, "Too many clients. Try again later.", { headers: { "retry-after": "30" } });
    }
    const transport = await this.#open(owner);
    await transport.serve(request, response, body);
    if (transport.sessionId === undefined) await transport.close();
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeper);
    await Promise.all([...this.#connections.values()].map((transport) => transport.close()));
  }

  async #open(owner: string): Promise<LegacyTransport> {
    const transport = new LegacyTransport(owner, (id) => this.#connections.set(id, transport));
    transport.onclose = () => this.#connections.delete(transport.sessionId ?? "");
    transport.onerror = (error) => this.#log.debug(`http: ${error.message}`);
    const server = await this.#createServer({ era: "legacy", owner });
    await server.connect(transport);
    return transport;
  }

  #sweep(): void {
    for (const transport of this.#connections.values()) {
      if (transport.idleMs >= this.#idleMs) void transport.close();
    }
  }

  /** At the limit, the owner with the most connections loses its least recently used one. */
  #makeRoom(): boolean {
    if (this.#connections.size < this.#max) return true;
    const idle = [...this.#connections.values()].filter((transport) => transport.idleMs > 0);
    const counts = new Map<string, number>();
    for (const { owner } of this.#connections.values()) counts.set(owner, (counts.get(owner) ?? 0) + 1);
    const [first] = idle.sort(
      (one, other) => (counts.get(other.owner) ?? 0) - (counts.get(one.owner) ?? 0) || other.idleMs - one.idleMs,
    );
    void first?.close();
    return first !== undefined;
  }
}

const methods = ["POST", "GET", "DELETE"];

/** The refusal of a request without a session. Another owner's session is indistinguishable from an unknown one. */
function refusalOutside({ method = "", headers }: IncomingMessage, words?: HttpWords): Refusal {
  if (words && method === "POST") return [400, words.noSession, {}];
  if (words && methods.includes(method)) return [400, words.unknownSession, { plain: true }];
  if (words) return [405, words.wrongMethod, { plain: true, headers: { allow: methods.join(", ") } }];
  // On 404 a client initializes again.
  if (headers["mcp-session-id"] !== undefined) return [404, "Session not found", { code: -32001 }];
  if (method !== "POST") return [405, "Method not allowed", { headers: { allow: "POST" } }];
  return [400, "Invalid request: initialize first", { code: -32600 }];
}

type Refusal = [status: number, message: string, options: RefusalOptions];

class LegacyTransport extends WebStandardStreamableHTTPServerTransport {
  readonly owner: string;
  /** Unanswered requests, whether or not their client is connected. */
  readonly #pending = new Set<RequestId>();
  #exchanges = 0;
  #lastUsedMs = performance.now();

  constructor(owner: string, onOpen: (id: string) => void) {
    super({ sessionIdGenerator: randomUUID, onsessioninitialized: onOpen });
    this.owner = owner;
  }

  /** 0 during a request or while a notification stream is open. */
  get idleMs(): number {
    return this.#exchanges > 0 || this.#pending.size > 0 ? 0 : performance.now() - this.#lastUsedMs;
  }

  /** No signal is passed: in the legacy protocol a lost connection does not cancel a request. */
  async serve(request: IncomingMessage, response: ServerResponse, body: unknown): Promise<void> {
    const messages = [body ?? []].flat().filter(isMessage);
    const ids = messages.filter(isJSONRPCRequest).map((message) => message.id);
    if (ids.some((id) => this.#pending.has(id)) || new Set(ids).size < ids.length) {
      return refuse(response, 409, "Invalid request: a request with this id is still running", { code: -32600 });
    }
    for (const id of ids) this.#pending.add(id);
    this.#exchanges += 1;
    try {
      const answer = await this.handleRequest(toWebRequest(request), { parsedBody: body });
      // Refused before any request started: none will be answered.
      if (!answer.ok) for (const id of ids) this.#pending.delete(id);
      for (const message of messages) this.#forgetCancelled(message);
      await writeWebResponse(answer, response);
    } finally {
      this.#exchanges -= 1;
      this.#lastUsedMs = performance.now();
    }
  }

  override async send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) {
      if (message.id !== undefined) this.#pending.delete(message.id);
    }
    await super.send(message, options);
  }

  /** A cancelled request is never answered: its stream would stay open, and the SDK would keep its id forever. */
  #forgetCancelled(message: JSONRPCMessage): void {
    if (!("method" in message) || message.method !== "notifications/cancelled") return;
    const { requestId: id } = (message.params ?? {}) as { requestId?: RequestId };
    if (id === undefined || !this.#pending.has(id)) return;
    this.closeSSEStream(id);
    // Not delivered, since the stream is closed; it makes the SDK release the id.
    void this.send({ jsonrpc: "2.0", id, error: { code: -32000, message: "cancelled" } }).catch(() => {});
  }
}

/** Only as much as this file needs; the SDK validates the message. */
function isMessage(value: unknown): value is JSONRPCMessage {
  return typeof value === "object" && value !== null;
}
