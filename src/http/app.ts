import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Log } from "../log.ts";
import { OptionError, type Options } from "../options/options.ts";
import { createAuthenticate } from "./auth.ts";
import { HttpError } from "./body.ts";
import { health } from "./health.ts";
import { createHostCheck } from "./hosts.ts";
import { refuse } from "./refuse.ts";

/** Headers fit into one packet; a client that needs longer is holding the connection open (slowloris). */
const HEADERS_MS = 15_000;
/** Time for the largest request over a slow connection. */
const REQUEST_MS = 120_000;
/** Longer than the usual 60 s of proxies, so that the proxy closes an idle connection first and no request is lost. */
const KEEP_ALIVE_MS = 75_000;
/** How often connections are checked against these limits. */
const CHECK_MS = 2_000;
/** Time for running responses to finish when the server closes. */
const CLOSE_MS = 2_000;

/** A path of this server. Its requests have passed the checks of Host, Origin and token. */
export interface Route {
  handle(request: IncomingMessage, response: ServerResponse, caller: { owner: string }): Promise<void>;
  close?(): Promise<void>;
}

export interface HttpAppParts {
  options: Pick<Options, "host" | "port" | "allowedHosts" | "authToken">;
  /** By path, such as `/mcp`. */
  routes: Record<string, Route>;
  log: Log;
  /** Plain-text answer for unknown paths. */
  wrongPath?: string | undefined;
  /** Shorter timeouts for tests. */
  limits?: { headersMs?: number; requestMs?: number };
}

export interface HttpApp {
  /** Rejects if the address is in use or not available. */
  listen(): Promise<{ url: string; port: number }>;
  /** Accepts no more connections; requests on open ones are still answered. */
  stopListening(): void;
  /** Stops listening and ends all connections within bounded time. Idempotent. */
  close(): Promise<void>;
}

/** The HTTP server: checks each request and routes it. */
export function createHttpApp({ options, routes, log, wrongPath, limits = {} }: HttpAppParts): HttpApp {
  const refusedHost = createHostCheck(options);
  const authenticate = createAuthenticate(options.authToken);
  /** Connections and their number of running requests. Node does not count new connections as idle. */
  const running = new Map<Socket, number>();
  const count = (connection: Socket, change: 1 | -1) => {
    const requests = running.get(connection);
    // A connection may be gone before its last response has ended.
    if (requests !== undefined) running.set(connection, requests + change);
  };
  const closeIdle = () => {
    for (const [connection, requests] of running) if (requests === 0) connection.destroySoon();
  };
  let closed: Promise<void> | undefined;
  const stopListening = () => {
    closed ??= new Promise<void>((resolve) => server.close(() => resolve()));
    return closed;
  };
  let closing: Promise<void> | undefined;

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    // Never log the query: it may contain secrets.
    const path = (request.url ?? "/").split("?", 1)[0] ?? "/";
    if (path === "/healthz") return health(request, response);
    const wrongHost = refusedHost(request);
    if (wrongHost) return refuse(response, 403, wrongHost);
    const caller = authenticate(request);
    if (!caller) {
      const invalid = request.headers.authorization === undefined ? "" : ', error="invalid_token"';
      const challenge = { "www-authenticate": `Bearer realm="cellwright"${invalid}` };
      return refuse(response, 401, "A valid bearer token is required.", { headers: challenge });
    }
    const route = Object.hasOwn(routes, path) ? routes[path] : undefined;
    if (!route) return refuse(response, 404, wrongPath ?? "Not found.", { plain: wrongPath !== undefined });
    await route.handle(request, response, caller);
  };

  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    // A client that disconnects in mid-request is not an error.
    request.on("error", () => {});
    response.on("error", () => {});
    const connection = request.socket;
    count(connection, 1);
    response.once("close", () => {
      count(connection, -1);
      if (closing) closeIdle();
    });
    handle(request, response).catch((error) => {
      if (error instanceof HttpError) {
        return refuse(response, error.status, error.message, { headers: error.headers });
      }
      if (request.destroyed && !request.complete) return;
      log.error("a request could not be handled", error);
      refuse(response, 500, "This is a bug in Cellwright. Its log on stderr has the details.");
    });
  };

  const server = createServer({
    headersTimeout: limits.headersMs ?? HEADERS_MS,
    requestTimeout: limits.requestMs ?? REQUEST_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connectionsCheckingInterval: Math.min(CHECK_MS, limits.headersMs ?? CHECK_MS),
  });
  server.on("connection", (connection) => {
    running.set(connection, 0);
    connection.once("close", () => running.delete(connection));
  });
  server.on("request", answer);
  // Without this, Node asks for the body before its announced length is checked.
  server.on("checkContinue", answer);

  return {
    listen: () =>
      new Promise((resolve, reject) => {
        const fail = (error: NodeJS.ErrnoException) => reject(cannotListen(error, options));
        server.once("error", fail);
        server.listen(options.port, options.host, () => {
          server.off("error", fail);
          server.on("error", (error) => log.error("http", error));
          const { port } = server.address() as AddressInfo;
          const host = options.host.includes(":") ? `[${options.host}]` : options.host;
          resolve({ url: `http://${host}:${port}`, port });
        });
      }),
    stopListening: () => void stopListening(),
    close: () => {
      closing ??= (async () => {
        const closed = stopListening();
        const backstop = setTimeout(() => server.closeAllConnections(), CLOSE_MS);
        await Promise.all(Object.values(routes).map((route) => route.close?.()));
        closeIdle();
        await closed;
        clearTimeout(backstop);
      })();
      return closing;
    },
  };
}

function cannotListen(error: NodeJS.ErrnoException, { host, port }: { host: string; port: number }): Error {
  const said: Record<string, string> = {
    EADDRINUSE: `Port ${port} of ${host} is in use by another program. Stop that, or choose another port with --port.`,
    EACCES: `Port ${port} of ${host} may not be used by this user. Choose one above 1023 with --port.`,
    EADDRNOTAVAIL: `This machine has no address ${host}. Choose one that it has with --host.`,
    ENOTFOUND: `There is no host \`${host}\`. Choose an address of this machine with --host.`,
  };
  const sentence = said[error.code ?? ""];
  return sentence === undefined ? error : new OptionError(sentence);
}
