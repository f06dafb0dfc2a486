import { setTimeout as pause } from "node:timers/promises";
import WebSocket from "ws";
import { CellwrightError } from "../../../errors.ts";
import type { Log } from "../../../log.ts";
import { isRecord } from "../../checked-event.ts";
import { askHttp, isAboutCertificate, whyNoAnswer } from "./http.ts";
import { type SocketTimes, WebSocketChannel } from "./socket.ts";
import { MAX_FRAME_BYTES, V1 } from "./wire.ts";

export interface JupyterServerConfig {
  url: string;
  token?: string | undefined;
  /** Intervals and timeouts of WebSocket connections. */
  times?: Partial<SocketTimes> | undefined;
  log: Log;
}

const HANDSHAKE_MS = 30_000;
const DELETE_ATTEMPTS = 8;
const DELETE_PAUSE_MS = 400;
/** The kernel name that every Jupyter server with Python has. */
const KERNEL_NAME = "python3";

/** One Jupyter server: its REST API, and connections to its kernels. The token is only ever sent in a header. */
export class JupyterServer {
  /** Without a trailing slash, with the path prefix; never contains a token. */
  readonly url: string;
  /** `host:port`, plus the path prefix. */
  readonly name: string;
  readonly log: Log;
  readonly #headers: Record<string, string>;
  readonly #times: Partial<SocketTimes>;

  constructor({ url, token, times = {}, log }: JupyterServerConfig) {
    const place = placeOf(url);
    this.url = place.url;
    this.name = place.name;
    this.log = log;
    const secret = token ?? place.token;
    this.#headers = secret === undefined ? {} : { Authorization: `token ${secret}` };
    this.#times = times;
  }

  /** Checks the API without and with the token. Throws `server_unreachable` or `server_refused`. */
  async check(signal: AbortSignal): Promise<{ version: string }> {
    const about = await this.#ask("GET", "/api", { signal });
    const version = about.status === 200 ? parse(about.text)?.version : undefined;
    if (typeof version !== "string") throw this.#refused(`does not answer as a Jupyter server does`, URL_HINT);
    if (/^0\./.test(version)) throw this.#refused(`is version ${version}; at least 1 is needed`, VERSION_HINT);
    await this.kernels(signal);
    return { version };
  }

  async createKernel(signal: AbortSignal): Promise<string> {
    const body = JSON.stringify({ name: KERNEL_NAME });
    const { id } = this.#take(await this.#ask("POST", "/api/kernels", { signal, body }), "start a kernel");
    if (typeof id !== "string") throw this.#refused("started a kernel without returning its id");
    return id;
  }

  /** The ids of its kernels. */
  async kernels(signal?: AbortSignal): Promise<string[]> {
    const { list } = this.#take(await this.#ask("GET", "/api/kernels", { signal }), "list its kernels");
    if (!Array.isArray(list)) throw this.#refused("does not answer as a Jupyter server does", URL_HINT);
    return list.filter(isRecord).map(({ id }) => String(id));
  }

  async interruptKernel(id: string): Promise<void> {
    this.#take(await this.#ask("POST", `/api/kernels/${encodeURIComponent(id)}/interrupt`), "interrupt a kernel");
  }

  /** Succeeds if the kernel does not exist. Retries: a server cannot delete a kernel while it replaces a dead one. */
  async deleteKernel(id: string, signal?: AbortSignal): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const answer = await this.#ask("DELETE", `/api/kernels/${encodeURIComponent(id)}`, { signal });
      if (answer.status === 404) return;
      if (answer.status < 500 || attempt === DELETE_ATTEMPTS) return void this.#take(answer, "end a kernel");
      await pause(DELETE_PAUSE_MS, undefined, { signal });
    }
  }

  /**
   * Resolves when the socket is open. `wsSession` identifies the client: a new socket with the same id replaces the old
   * one, and gets what the kernel sent in between. Throws `kernel_not_found` if the kernel does not exist.
   */
  async connect(
    kernelId: string,
    { wsSession, signal }: { wsSession: string; signal: AbortSignal },
  ): Promise<WebSocketChannel> {
    const channel = new WebSocketChannel({
      open: (client) => this.#open(kernelId, client === 0 ? wsSession : `${wsSession}-${client}`),
      serverName: this.url,
      ...this.#times,
    });
    await channel.connect(signal);
    return channel;
  }

  #open(kernelId: string, wsSession: string): WebSocket {
    const base = this.url.replace(/^http/, "ws");
    const query = new URLSearchParams({ session_id: wsSession });
    return new WebSocket(`${base}/api/kernels/${encodeURIComponent(kernelId)}/channels?${query}`, [V1], {
      headers: this.#headers,
      agent: false,
      perMessageDeflate: false,
      maxPayload: MAX_FRAME_BYTES,
      handshakeTimeout: HANDSHAKE_MS,
      followRedirects: false,
    });
  }

  async #ask(method: "GET" | "POST" | "DELETE", path: string, rest: { body?: string; signal?: AbortSignal } = {}) {
    const headers = { ...this.#headers, Accept: "application/json", "Content-Type": "application/json" };
    try {
      return await askHttp({ method, url: `${this.url}${path}`, headers, ...rest });
    } catch (cause) {
      rest.signal?.throwIfAborted();
      const message = `The Jupyter server at ${this.url} cannot be reached: ${whyNoAnswer(cause)}.`;
      throw new CellwrightError("server_unreachable", message, isAboutCertificate(cause) ? { hint: CA_HINT } : {});
    }
  }

  /** The body of a successful answer: an object, or a list as `list`. */
  #take({ status, text }: { status: number; text: string }, task: string): Record<string, unknown> {
    if (status === 401 || status === 403) {
      const why = "Authorization" in this.#headers ? "refuses the token" : "requires a token, and none is set";
      throw this.#refused(`${why} (${status})`, TOKEN_HINT);
    }
    if (status >= 300 && status < 400) throw this.#refused(`redirects to another address (${status})`, URL_HINT);
    if (status >= 400) {
      const said = parse(text)?.message;
      const detail = typeof said === "string" && said ? `: ${said.slice(0, 500)}` : "";
      throw this.#refused(`could not ${task} (${status}${detail})`);
    }
    return parse(text) ?? {};
  }

  #refused(what: string, hint?: string): CellwrightError {
    return new CellwrightError("server_refused", `The Jupyter server at ${this.url} ${what}.`, { hint });
  }
}

const URL_HINT =
  "Check --jupyter-url: it is the address of the server without `/lab` or `/tree`, with its path prefix.";
const TOKEN_HINT = "Check --jupyter-token, or the server's line in its @FILE.";
const CA_HINT = "Set NODE_EXTRA_CA_CERTS to the certificate file of the authority that signed its certificate.";
const VERSION_HINT = "Install a newer jupyter_server there.";

/** Accepts URLs as users paste them: with a trailing slash, or copied from the server's log with the token. */
function placeOf(text: string): { url: string; name: string; token?: string } {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password) {
    const shown = url ? `${url.protocol}//${url.host}${url.pathname}` : "the given text";
    throw new CellwrightError(
      "invalid_input",
      `The address of a Jupyter server must be like http://host:port, not ${shown}.`,
      {
        hint: URL_HINT,
      },
    );
  }
  const path = url.pathname.replace(/\/+$/, "");
  const token = url.searchParams.get("token") ?? undefined;
  const port = url.port || (url.protocol === "https:" ? "443" : "80");
  return { url: `${url.origin}${path}`, name: `${url.hostname}:${port}${path}`, token };
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? { list: value } : isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
