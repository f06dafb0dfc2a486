import { lookup } from "node:dns/promises";
import { constants } from "node:fs";
import { chmod, type FileHandle, mkdir, open, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { join } from "node:path";
import { finished } from "node:stream";
import type { Log } from "../log.ts";
import { type HostLog, logHosts } from "./host-log.ts";
import { type NetRules, parseNetRules } from "./net-rules.ts";
import { Crowded, describeRefusal, MAX_CONNECTIONS, Refused } from "./proxy-refusal.ts";
import { hostOf, type Judge, openTunnel } from "./tunnel.ts";

export interface ProxyOptions {
  /** Its own folder, mode 0700, to be bound into jails; the socket in it is called `socket`. */
  folder: string;
  /** Whose it is, for the log. */
  sessionId: string;
  /** `example.org`, `*.example.org`, `host:443`, an address, a network `10.0.0.0/8`, `*` for every public host. */
  allow: string[];
  log: Log;
  /** Looks up the addresses of a name that is allowed. */
  resolve?: (host: string) => Promise<string[]>;
}

export interface NetProxy {
  readonly socketPath: string;
  dispose(): Promise<void>;
}

/** Connections beyond these are heard, too, so that they can be told why they are refused; others are just closed. */
const MAX_REFUSING = 16;
/** A connection without a byte in either direction for so long is given up. */
const IDLE_TIMEOUT_MS = 5 * 60_000;

/** Headers that are between the client and us. */
const hopHeaders = new Set([
  ...["connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"],
  ...["te", "trailer", "transfer-encoding", "upgrade", "host"],
]);

/**
 * A proxy for the jailed processes of one session that lets through only what is allowed, and logs which hosts that are. A
 * host is judged by its name before the name is looked up, then by the address that was found, and that address is the
 * one connected to. Each request is judged anew, so a redirect is a request like any other. Not judged: what is said to a
 * host that is allowed.
 */
export async function openProxy(options: ProxyOptions): Promise<NetProxy> {
  const rules = parseNetRules(options.allow);
  const hosts = logHosts(options.log, options.sessionId);
  const judge: Judge = async (host, port) => {
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
  const crowded = new WeakSet<Socket>();
  const inRoom = async (client: Socket, work: () => Promise<void>): Promise<void> => {
    if (crowded.has(client)) throw new Crowded();
    await work();
  };
  const unanswered = new WeakSet<Socket>();
  /** False: it did not wait for the last answer and is cut off, since each request is a connection to somebody else. */
  const isNext = (client: Socket): boolean => {
    if (unanswered.has(client)) client.destroy();
    else unanswered.add(client);
    return !client.destroyed;
  };

  const server = createServer({ requestTimeout: 0, headersTimeout: 30_000, keepAliveTimeout: 30_000 });
  server.maxConnections = MAX_CONNECTIONS + MAX_REFUSING;
  server.on("connection", (client) => {
    track(client);
    if (clients.size >= MAX_CONNECTIONS) return void crowded.add(client);
    clients.add(client);
    client.once("close", () => clients.delete(client));
  });
  server.on("request", (incoming, outgoing) => {
    if (!isNext(incoming.socket)) return;
    outgoing.once("finish", () => unanswered.delete(incoming.socket));
    inRoom(incoming.socket, () => forwardRequest(incoming, outgoing, judge)).catch((error) =>
      refuse(outgoing, error, hosts),
    );
  });
  server.on("connect", (incoming: IncomingMessage, client: Socket, head: Buffer) => {
    if (!isNext(client)) return;
    inRoom(client, () => openTunnel(incoming, client, head, { judge, track })).catch((error) => {
      const { status, message } = describeRefusal(error, hosts);
      client.end(`HTTP/1.1 ${status}\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n${message}\n`);
    });
  });
  server.on("clientError", (_error, client) => client.destroy());

  await mkdir(options.folder, { recursive: true, mode: 0o700 });
  await chmod(options.folder, 0o700);
  const socketPath = join(options.folder, "socket");
  await rm(socketPath, { force: true });
  // The address of a socket has 108 bytes, which a session's folder may need for itself: it is named by a descriptor.
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

/** The address to connect to. */
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

/** `http://host/path`, in the clear. */
async function forwardRequest(incoming: IncomingMessage, outgoing: ServerResponse, judge: Judge): Promise<void> {
  const url = URL.canParse(incoming.url ?? "") ? new URL(incoming.url ?? "") : undefined;
  if (url?.protocol !== "http:") throw new Refused("this is a proxy: it takes whole http:// addresses and CONNECT");
  const host = hostOf(url);
  const port = Number(url.port || 80);
  const address = await judge(host, port);
  const headers = Object.entries(incoming.headers).filter(([name]) => !hopHeaders.has(name));
  const upstream = request({
    host: address,
    port,
    method: incoming.method,
    path: url.pathname + url.search,
    // What the address says, not what the client does.
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
      // Node reads more than it writes, such as a status of 99.
      upstream.destroy(new Error("the answer is not HTTP"));
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
