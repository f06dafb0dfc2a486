import { once } from "node:events";
import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import * as z from "zod";
import { CellwrightError } from "../../errors.ts";
import { NOT_RUN_HEADER, type SandboxFault, type SandboxReply } from "../../sandbox/protocol.ts";
import { findListener, isLoopbackAddress } from "./listener.ts";

/** Connect timeout. A live sandbox accepts in milliseconds; a firewall may drop packets silently. */
const CONNECT_MS = 5_000;
/** Enough for the largest figures of one cell. */
const MAX_REPLY_BYTES = 64 * 1024 * 1024;
/** Clearing a session is fast, and callers should not wait for it. */
const CLEAR_MS = 3_000;
/** How long the owner of a listening socket is cached: looking it up reads a table of all sockets. */
const LISTENER_MS = 1_000;
/** Characters shown of an invalid answer. */
const SHOWN_CHARS = 200;

/** The request body. These keys only. */
export interface SandboxRequest {
  session_id: string;
  code: string;
  /** In seconds. */
  timeout: number;
}

/** A request that was sent and failed. The cell may have run. */
export class SandboxFailure extends Error {
  override name = "SandboxFailure";
  readonly fault: SandboxFault;
  /** The sandbox refused the request: nothing ran, and the sandbox is healthy. */
  readonly isRefusal: boolean;
  /** The sandbox is shutting down: nothing ran. */
  readonly isLeaving: boolean;

  constructor(message: string, fault: SandboxFault, { isRefusal = false, isLeaving = false } = {}) {
    super(message);
    this.fault = fault;
    this.isRefusal = isRefusal;
    this.isLeaving = isLeaving;
  }
}

const base64 = z.string().regex(/^[A-Za-z0-9+/\s]*={0,2}\s*$/);
const text = z
  .string()
  .nullish()
  .transform((value) => value ?? "");
const replySchema = z.object({
  status: z.enum(["success", "error"]),
  execution_time: z.number().optional().catch(undefined),
  error: z.string().optional().catch(undefined),
  output: z
    .object({
      stdout: text,
      stderr: text,
      images: z
        .array(base64)
        .nullish()
        .transform((value) => value ?? []),
      result: z.string().optional().catch(undefined),
    })
    .default({ stdout: "", stderr: "", images: [] }),
});

/** Statuses of an invalid request, or of a temporary lack of capacity. */
const refusals = [400, 413, 422, 429];

/** Tokens for sandboxes, and which listeners are trusted. */
export interface SandboxAccess {
  token?: string | undefined;
  /** Replaces `token` for a local sandbox that runs as the same user. */
  ownToken?: string | undefined;
  /** Trust local sandboxes of any user. */
  anyListener?: boolean | undefined;
}

/** One sandbox behind HTTP: `POST /jupyter_sandbox`, `POST /clear_session`. */
export class Sandbox {
  /** For messages and the balancer. */
  readonly name: string;
  readonly #url: URL;
  readonly #access: SandboxAccess;
  /** Connections to a process of the same user. */
  readonly #own = new WeakSet<Socket>();
  #listener: { verdict: ReturnType<typeof findListener>; untilMs: number } | undefined;

  constructor(name: string, url: URL, access: SandboxAccess = {}) {
    this.name = name;
    this.#url = url;
    this.#access = access;
  }

  /** Opens a connection for one request. Throws `server_unreachable`: nothing was sent then. */
  async connect(signal?: AbortSignal): Promise<Socket> {
    signal?.throwIfAborted();
    const { protocol, port } = this.#url;
    const host = this.#url.hostname.replace(/^\[|\]$/g, "");
    const isTls = protocol === "https:";
    const address = { host, port: Number(port || (isTls ? 443 : 80)) };
    const socket = isTls ? connectTls({ ...address, servername: host }) : connectTcp(address);
    // The other side may close it before it is used.
    socket.on("error", () => {});
    try {
      await opened(socket, isTls ? "secureConnect" : "connect", signal);
      this.#checkListener(socket);
    } catch (error) {
      socket.destroy();
      this.#listener = undefined;
      signal?.throwIfAborted();
      const why = error instanceof Error ? error.message : String(error);
      throw new CellwrightError("server_unreachable", `Sandbox ${this.name} cannot be reached: ${why}.`, {
        cause: error,
      });
    }
    socket.setNoDelay(true);
    return socket;
  }

  /** Any local user can listen on a free loopback port, and would receive code and token. */
  #checkListener(socket: Socket): void {
    const { remoteAddress = "", remotePort = 0 } = socket;
    if (this.#access.anyListener || !isLoopbackAddress(remoteAddress)) return;
    const nowMs = performance.now();
    if (!this.#listener || this.#listener.untilMs < nowMs) {
      this.#listener = { verdict: findListener(remoteAddress, remotePort), untilMs: nowMs + LISTENER_MS };
    }
    if (this.#listener.verdict === "own") this.#own.add(socket);
    if (this.#listener.verdict !== "foreign") return;
    this.#listener = undefined;
    throw new Error("a process of another user listens there, or its user is unknown; --insecure trusts it");
  }

  #authorization(socket: Socket): { authorization?: string } {
    const { token = this.#own.has(socket) ? this.#access.ownToken : undefined } = this.#access;
    return token === undefined ? {} : { authorization: `Bearer ${token}` };
  }

  /** Sends a request over an open connection, once. Throws SandboxFailure, or the signal's reason. */
  async run(socket: Socket, body: SandboxRequest, { limitMs, signal }: RunOptions): Promise<SandboxReply> {
    const { status, reason, isLeaving, text } = await this.#post(socket, "jupyter_sandbox", body, { limitMs, signal });
    const json = parseJson(text);
    const reply = replySchema.safeParse(json);
    if (status !== 200) {
      const said = z.object({ error: z.string() }).safeParse(json);
      throw new SandboxFailure(
        `Sandbox ${this.name} answered HTTP ${status}: ${said.success ? said.data.error : shown(text)}`,
        { kind: "http", status, reason, url: this.#address("jupyter_sandbox").href, said: reply.data?.error },
        { isRefusal: refusals.includes(status), isLeaving },
      );
    }
    if (!reply.success) {
      const fault: SandboxFault = { kind: "malformed", text: text.slice(0, SHOWN_CHARS) };
      throw new SandboxFailure(`Sandbox ${this.name} sent an invalid reply: ${shown(text)}`, fault);
    }
    return reply.data;
  }

  /** Ends a session there, which also stops its cell. Throws if that fails. */
  async clear(sessionId: string): Promise<void> {
    const signal = AbortSignal.timeout(CLEAR_MS);
    const socket = await this.connect(signal);
    await this.#post(socket, "clear_session", { session_id: sessionId }, { limitMs: CLEAR_MS, signal });
  }

  async #post(socket: Socket, path: string, body: object, { limitMs, signal }: RunOptions): Promise<Answer> {
    const url = this.#address(path);
    const bytes = Buffer.from(JSON.stringify(body));
    const limit = AbortSignal.timeout(Math.ceil(limitMs));
    const request = httpRequest({
      method: "POST",
      path: url.pathname,
      headers: {
        host: url.host,
        "content-type": "application/json",
        "content-length": bytes.length,
        connection: "close",
        ...this.#authorization(socket),
      },
      createConnection: () => socket,
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
    // It can also fail after its response has started; reading the response reports that.
    request.on("error", () => {});
    let response: IncomingMessage | undefined;
    try {
      request.end(bytes);
      response = await responseTo(request);
      return {
        status: response.statusCode ?? 0,
        reason: response.statusMessage ?? "",
        isLeaving: response.headers[NOT_RUN_HEADER] !== undefined,
        text: await read(response),
      };
    } catch (error) {
      signal?.throwIfAborted();
      this.#listener = undefined;
      const why = error instanceof Error ? error.message : String(error);
      const what = response ? "sent an incomplete answer" : "dropped the connection without an answer";
      throw limit.aborted
        ? new SandboxFailure(`Sandbox ${this.name} did not answer within ${limitMs / 1000} s.`, { kind: "timeout" })
        : new SandboxFailure(`Sandbox ${this.name} ${what} (${why}).`, { kind: "disconnected" });
    } finally {
      socket.destroy();
    }
  }

  #address(path: string): URL {
    const url = new URL(this.#url);
    url.pathname = `${url.pathname.replace(/\/+$/, "")}/${path}`;
    return url;
  }
}

interface Answer {
  status: number;
  reason: string;
  isLeaving: boolean;
  text: string;
}

interface RunOptions {
  limitMs: number;
  signal?: AbortSignal | undefined;
}

async function opened(socket: Socket, event: "connect" | "secureConnect", signal?: AbortSignal): Promise<void> {
  const limit = AbortSignal.timeout(CONNECT_MS);
  try {
    await once(socket, event, { signal: signal ? AbortSignal.any([signal, limit]) : limit });
  } catch (error) {
    throw limit.aborted ? new Error(`no answer within ${CONNECT_MS / 1000} s`) : error;
  }
}

async function responseTo(request: ClientRequest): Promise<IncomingMessage> {
  const [response] = await Promise.race([
    once(request, "response"),
    once(request, "close").then(() => Promise.reject(new Error("it was closed"))),
  ]);
  return response;
}

async function read(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    bytes += chunk.length;
    if (bytes > MAX_REPLY_BYTES) throw new Error(`more than ${MAX_REPLY_BYTES / 1024 / 1024} MB`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function shown(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line === "" ? "nothing" : line.length > SHOWN_CHARS ? `${line.slice(0, SHOWN_CHARS)}…` : line;
}
