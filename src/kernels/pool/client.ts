import { request as httpRequest, type IncomingMessage } from "node:http";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import * as z from "zod";
import { CellwrightError } from "../../errors.ts";
import { NOT_RUN_HEADER, type SandboxFault, type SandboxReply } from "../../execution.ts";
import { findListener, isLoopbackAddress } from "./listener.ts";

/** A sandbox that is there accepts in milliseconds; one behind a firewall that drops packets never does. */
const CONNECT_MS = 5_000;
/** Room for the largest figures of one cell. */
const MAX_REPLY_BYTES = 64 * 1024 * 1024;
/** Forgetting a session is quick, and nobody should wait for it. */
const CLEAR_MS = 3_000;
/** How long it is believed whose process listens: the kernel goes through a table of all its sockets to tell. */
const LISTENER_MS = 1_000;
/** As much as is shown of an answer that was not understood. */
const SHOWN_CHARS = 200;

/** What a sandbox is asked. These keys, and no others. */
export interface SandboxRequest {
  session_id: string;
  code: string;
  /** In seconds. */
  timeout: number;
}

/** A request that was sent and not answered as it should. What it asked for may have been done. */
export class SandboxFailure extends Error {
  override name = "SandboxFailure";
  readonly fault: SandboxFault;
  /** The sandbox refused what it was asked: nothing was run, and the sandbox is well. */
  readonly isRefusal: boolean;
  /** The sandbox is about to end: nothing was run. */
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

/** Answers that say that something is wrong with the request, or that there is no room for it now. */
const refusals = [400, 413, 422, 429];

/** What a sandbox is shown, and which ones are believed to be sandboxes. */
export interface SandboxAccess {
  token?: string | undefined;
  /** In place of `token`, for a process of our own user on this machine. */
  ownToken?: string | undefined;
  /** On this machine, a process of any user may be the sandbox. */
  anyListener?: boolean | undefined;
}

/** One sandbox behind HTTP: `POST /jupyter_sandbox`, `POST /clear_session`. */
export class Sandbox {
  /** For people and the balancer. */
  readonly name: string;
  readonly #url: URL;
  readonly #access: SandboxAccess;
  /** Connections to a process of our own user. */
  readonly #own = new WeakSet<Socket>();
  #listener: { verdict: ReturnType<typeof findListener>; untilMs: number } | undefined;

  constructor(name: string, url: URL, access: SandboxAccess = {}) {
    this.name = name;
    this.#url = url;
    this.#access = access;
  }

  /** A connection for one request. Throws `server_unreachable`: nothing has been asked then. */
  async connect(signal?: AbortSignal): Promise<Socket> {
    signal?.throwIfAborted();
    const { protocol, port } = this.#url;
    const host = this.#url.hostname.replace(/^\[|\]$/g, "");
    const isTls = protocol === "https:";
    const address = { host, port: Number(port || (isTls ? 443 : 80)) };
    const socket = isTls ? connectTls({ ...address, servername: host }) : connectTcp(address);
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
    // It may be closed by the other side before it is used.
    socket.on("error", () => {});
    socket.setNoDelay(true);
    return socket;
  }

  /** Any user of this machine can listen on a port of loopback that is free, and would be sent code and a token. */
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
    throw new Error("a process of another user listens there, or one that cannot be seen; --insecure trusts it");
  }

  #authorization(socket: Socket): { authorization?: string } {
    const { token = this.#own.has(socket) ? this.#access.ownToken : undefined } = this.#access;
    return token === undefined ? {} : { authorization: `Bearer ${token}` };
  }

  /** Sends a request over a connection that is open, once. Throws SandboxFailure, or the signal's reason. */
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
      throw new SandboxFailure(`Sandbox ${this.name} answered what is no result of a cell: ${shown(text)}`, fault);
    }
    return reply.data;
  }

  /** Ends a session there, which stops its cell too. Throws where that cannot be done. */
  async clear(sessionId: string): Promise<void> {
    const signal = AbortSignal.timeout(CLEAR_MS);
    const socket = await this.connect(signal);
    await this.#post(socket, "clear_session", { session_id: sessionId }, { limitMs: CLEAR_MS, signal });
  }

  #post(socket: Socket, path: string, body: object, { limitMs, signal }: RunOptions): Promise<Answer> {
    const url = this.#address(path);
    const bytes = Buffer.from(JSON.stringify(body));
    return new Promise((resolve, reject) => {
      let hasAnswer = false;
      const fail = (reason: string, kind: "disconnected" | "timeout" = "disconnected") => {
        this.#listener = undefined;
        reject(new SandboxFailure(`Sandbox ${this.name} ${reason}`, { kind }));
      };
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
      });
      const timer = setTimeout(() => {
        fail(`did not answer within ${limitMs / 1000} s.`, "timeout");
        request.destroy();
      }, limitMs);
      const abort = () => {
        reject(signal?.reason);
        request.destroy();
      };
      signal?.addEventListener("abort", abort, { once: true });
      request.once("close", () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
        socket.destroy();
        // Once there is an answer, what can be read of it decides.
        if (!hasAnswer) fail("closed the connection before it had answered.");
      });
      request.once("error", (error) => fail(`broke the connection before it had answered (${error.message}).`));
      request.once("response", (response) => {
        hasAnswer = true;
        read(response).then(
          (text) =>
            resolve({
              status: response.statusCode ?? 0,
              reason: response.statusMessage ?? "",
              isLeaving: response.headers[NOT_RUN_HEADER] !== undefined,
              text,
            }),
          (error: Error) => {
            fail(`did not finish its answer (${error.message}).`);
            request.destroy();
          },
        );
      });
      if (signal?.aborted) abort();
      else request.end(bytes);
    });
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

function opened(socket: Socket, event: "connect" | "secureConnect", signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer within ${CONNECT_MS / 1000} s`)), CONNECT_MS);
    const abort = () => reject(signal?.reason);
    signal?.addEventListener("abort", abort, { once: true });
    socket.once("error", reject);
    socket.once(event, () => resolve());
    socket.once("close", () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      reject(new Error("the connection was closed"));
    });
    socket.once(event, () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    });
  });
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
