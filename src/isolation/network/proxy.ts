import { lookup } from "node:dns/promises";
import { constants } from "node:fs";
import { chmod, type FileHandle, mkdir, open, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { join } from "node:path";
import { finished } from "node:stream";
import type { Log } from "../../log.ts";
import { type HostLog, logHosts } from "./host-log.ts";
import { type NetRules, parseNetRules } from "./net-rules.ts";
import { describeRefusal, MAX_CONNECTIONS, Refused, TooManyConnections } from "./proxy-refusal.ts";
import { type AllowedAddress, hostOf, openTunnel } from "./tunnel.ts";

export interface ProxyOptions {
  /** Its own folder, mode 0700, to be mounted into jails; the socket in it is named `socket`. */
  folder: string;
  /** For the log. */
  sessionId: string;
  /** `example.org`, `*.example.org`, `host:443`, an address, a network `10.0.0.0/8`, `*` for every public host. */
  allow: string[];
  log: Log;
  /** Resolves an allowed host name; default: DNS. */
  resolve?: (host: string) => Promise<string[]>;
}

export interface NetProxy {
  readonly socketPath: string;
  dispose(): Promise<void>;
}

/** Connections accepted beyond the limit, only to answer with the reason; further ones are just closed. */
const MAX_REFUSING = 16;
/** Idle timeout of a connection, in both directions. */
const IDLE_TIMEOUT_MS = 5 * 60_000;

/** Hop-by-hop headers, which are not forwarded. */
const hopHeaders = new Set([
  ...["connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"],
  ...["te", "trailer", "transfer-encoding", "upgrade", "host"],
]);

/**
 * A filtering proxy for the jailed processes of one session: allows only what the rules allow, and logs the hosts. A
 * host is checked by name before the DNS lookup, then by the address found, and exactly that address is connected to
 * (no DNS rebinding). Each request is checked separately, redirects included. What is sent to an allowed host is not
 * checked.
 */
export async function openProxy(options: ProxyOptions): Promise<NetProxy> {
  const rules = parseNetRules(options.allow);
  const hosts = logHosts(options.log, options.sessionId);
  const allowedAddress: AllowedAddress = async (host, port) => {
    const address = await findAddress(host, port, rules, options.resolve ?? resolveName);
    hosts.allowed(host, port);
    return address;
  };
  const open = new Set<Socket>();
  const track = (socket: Socket): void => {
    open.add(socket);
    socket.setTimeout(IDLE_TIMEOUT_MS, () => socket.destroy());
    socket.on("error", () => socket.destroy());
    socket.once("close", () => open.delete(socket));
  };
  const clients = new Set<Socket>();
  const overLimit = new WeakSet<Socket>();
  const withinLimit = async (client: Socket, work: () => Promise<void>): Promise<void> => {
    if (overLimit.has(client)) throw new TooManyConnections();
    await work();
  };
  const unanswered = new WeakSet<Socket>();
  /** False: the client pipelines requests and is disconnected, because each request may go to another host. */
  const isNext = (client: Socket): boolean => {
    if (unanswered.has(client)) client.destroy();
    else unanswered.add(client);
    return !client.destroyed;
  };

  const server = createServer({ requestTimeout: 0, headersTimeout: 30_000, keepAliveTimeout: 30_000 });
  server.maxConnections = MAX_CONNECTIONS + MAX_REFUSING;
  server.on("connection", (client) => {
    track(client);
    if (clients.size >= MAX_CONNECTIONS) return void overLimit.add(client);
    clients.add(client);
    client.once("close", () => clients.delete(client));
  });
  server.on("request", (incoming, outgoing) => {
    if (!isNext(incoming.socket)) return;
    outgoing.once("finish", () => unanswered.delete(incoming.socket));
    withinLimit(incoming.socket, () => forwardRequest(incoming, outgoing, allowedAddress)).catch((error) =>
      refuse(outgoing, error, hosts),
    );
  });
  server.on("connect", (incoming: IncomingMessage, client: Socket, head: Buffer) => {
    if (!isNext(client)) return;
    withinLimit(client, () => openTunnel(incoming, client, head, { allowedAddress, track })).catch((error) => {
      const { status, message } = describeRefusal(error, hosts);
      client.end(`HTTP/1.1 ${status}\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n${message}\n`);
    });
  });
  server.on("clientError", (_error, client) => client.destroy());

  await mkdir(options.folder, { recursive: true, mode: 0o700 });
  await chmod(options.folder, 0o700);
  const socketPath = join(options.folder, "socket");
  await rm(socketPath, { force: true });
  // A socket path is limited to 108 bytes, and the session's folder may be longer: use a descriptor of it.
  const folder = await openFolder(options.folder);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(`/proc/self/fd/${folder.fd}/socket`, resolve);
  }).catch(async (error) => {
    await folder.close();
    throw error;
  });
  let disposed: Promise<void> | undefined;
  return {
    socketPath,
    dispose() {
      disposed ??= (async () => {
        for (const socket of open) socket.destroy();
        await new Promise<void>((resolve) => server.close(() => resolve()));
        await folder.close();
      })();
      return disposed;
    },
  };
}

/** The allowed address to connect to. Throws `Refused`. */
async function findAddress(
  host: string,
  port: number,
  rules: NetRules,
  resolve: (host: string) => Promise<string[]>,
): Promise<string> {
  const byName = rules.refuseHost(host, port);
  if (byName) throw new Refused(byName, host);
  const addresses = await resolve(host);
  const refusals = addresses.map((address) => rules.refuseAddress(address, host, port));
  const address = addresses.find((_address, index) => refusals[index] === undefined);
  if (address === undefined) throw new Refused(refusals[0] ?? `${host} has no address`, host);
  return address;
}

async function resolveName(host: string): Promise<string[]> {
  const found = await lookup(host, { all: true });
  return found.map(({ address }) => address);
}

/** Forwards a plain `http://host/path`. */
async function forwardRequest(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  allowedAddress: AllowedAddress,
): Promise<void> {
  const url = URL.canParse(incoming.url ?? "") ? new URL(incoming.url ?? "") : undefined;
  if (url?.protocol !== "http:") throw new Refused("this is a proxy: it accepts absolute http:// URLs and CONNECT");
  const host = hostOf(url);
  const port = Number(url.port || 80);
  const address = await allowedAddress(host, port);
  const headers = Object.entries(incoming.headers).filter(([name]) => !hopHeaders.has(name));
  const upstream = request({
    host: address,
    port,
    method: incoming.method,
    path: url.pathname + url.search,
    // From the URL, not from the client's header.
    headers: { ...Object.fromEntries(headers), host: url.host },
    agent: false,
    timeout: IDLE_TIMEOUT_MS,
  });
  upstream.on("timeout", () => upstream.destroy(new Error("no answer")));
  upstream.on("response", (response) => {
    const kept = Object.entries(response.headers).filter(
      ([name]) => !hopHeaders.has(name) || name === "transfer-encoding",
    );
    response.on("error", () => outgoing.destroy());
    try {
      outgoing.writeHead(response.statusCode ?? 502, Object.fromEntries(kept));
      response.pipe(outgoing);
    } catch {
      // Node parses some responses that it refuses to write, such as a status of 99.
      upstream.destroy(new Error("the response is not valid HTTP"));
    }
  });
  upstream.on("error", (error) => refuse(outgoing, error));
  finished(outgoing, () => upstream.destroy());
  incoming.pipe(upstream);
}

function refuse(outgoing: ServerResponse, error: unknown, hosts?: HostLog): void {
  const { status, message } = describeRefusal(error, hosts);
  if (outgoing.headersSent) return void outgoing.destroy();
  outgoing.writeHead(Number.parseInt(status, 10), { "content-type": "text/plain", connection: "close" });
  outgoing.end(`${message}\n`);
}

function openFolder(folder: string): Promise<FileHandle> {
  return open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
}
