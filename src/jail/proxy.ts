import { lookup } from "node:dns/promises";
import { chmod, mkdir, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { finished } from "node:stream";
import type { Log } from "../log.ts";
import { readGreeting } from "./client-hello.ts";
import { type NetRules, parseNetRules } from "./net-rules.ts";

export interface ProxyOptions {
  /** Its own folder, mode 0700, to be bound into jails; the socket in it is called `socket`. */
  folder: string;
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

/** What fits into `sun_path`, with its end. */
const MAX_SOCKET_PATH = 107;
/** All sessions together. Each connection has two sockets of the server's. */
const MAX_CONNECTIONS = 512;
const CONNECT_TIMEOUT_MS = 20_000;
/** A connection without a byte in either direction for so long is given up. */
const IDLE_TIMEOUT_MS = 5 * 60_000;
/** How long a client may take to say the first words in its tunnel. */
const GREETING_TIMEOUT_MS = 20_000;
/** Refusals that are logged in a minute; user code can make as many as it likes. */
const MAX_LOGGED = 30;

/** Headers that are between the client and us. */
const hopHeaders = new Set([
  ...["connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"],
  ...["te", "trailer", "transfer-encoding", "upgrade", "host"],
]);

/**
 * A proxy for jailed processes that lets through only what is allowed, and logs what it refuses. A host is judged by its
 * name before the name is looked up, then by the address that was found, and that address is the one connected to. Each
 * request is judged anew, so a redirect is a request like any other. Not judged: what is said to a host that is allowed.
 */
export async function openProxy(options: ProxyOptions): Promise<NetProxy> {
  const rules = parseNetRules(options.allow);
  const logRefusal = limitedLog(options.log);
  const judge = (host: string, port: number) => findAddress(host, port, rules, options.resolve ?? resolveName);
  const open = new Set<Socket>();
  const track = (socket: Socket): void => {
    open.add(socket);
    socket.setTimeout(IDLE_TIMEOUT_MS, () => socket.destroy());
    socket.on("error", () => socket.destroy());
    socket.once("close", () => open.delete(socket));
  };

  const server = createServer({ requestTimeout: 0, headersTimeout: 30_000, keepAliveTimeout: 30_000 });
  server.maxConnections = MAX_CONNECTIONS;
  server.on("connection", track);
  server.on("request", (incoming, outgoing) => {
    void forwardRequest(incoming, outgoing, judge).catch((error) => refuse(outgoing, error, logRefusal));
  });
  server.on("connect", (incoming: IncomingMessage, client: Socket, head: Buffer) => {
    void openTunnel(incoming, client, head, { judge, track }).catch((error) => {
      const { status, message } = describe(error, logRefusal);
      client.end(`HTTP/1.1 ${status}\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n${message}\n`);
    });
  });
  server.on("clientError", (_error, client) => client.destroy());

  const socketPath = join(options.folder, "socket");
  if (Buffer.byteLength(socketPath) > MAX_SOCKET_PATH)
    throw new Error(`the path ${socketPath} is too long for a socket`);
  await mkdir(options.folder, { recursive: true, mode: 0o700 });
  await chmod(options.folder, 0o700);
  await rm(socketPath, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(socketPath, resolve);
  });
  return {
    socketPath,
    async dispose() {
      for (const socket of open) socket.destroy();
      if (server.listening) await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

class Refused extends Error {}

type Judge = (host: string, port: number) => Promise<string>;

/** The address to connect to. */
async function findAddress(
  host: string,
  port: number,
  rules: NetRules,
  resolve: (host: string) => Promise<string[]>,
): Promise<string> {
  const byName = rules.refuseHost(host, port);
  if (byName) throw new Refused(byName);
  const addresses = await resolve(host);
  const refusals = addresses.map((address) => rules.refuseAddress(address, host));
  const address = addresses.find((_address, index) => refusals[index] === undefined);
  if (address === undefined) throw new Refused(refusals[0] ?? `${host} has no address`);
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
    outgoing.writeHead(response.statusCode ?? 502, Object.fromEntries(kept));
    response.pipe(outgoing);
    response.on("error", () => outgoing.destroy());
  });
  upstream.on("error", (error) => refuse(outgoing, error, () => {}));
  finished(outgoing, () => upstream.destroy());
  incoming.pipe(upstream);
}

/** `CONNECT host:443`. What is said inside is encrypted, but for the name in its first words, which must be the same. */
async function openTunnel(
  incoming: IncomingMessage,
  client: Socket,
  head: Buffer,
  { judge, track }: { judge: Judge; track: (socket: Socket) => void },
): Promise<void> {
  const authority = incoming.url ?? "";
  const port = Number(/:(\d{1,5})$/.exec(authority)?.[1] ?? Number.NaN);
  const url = URL.canParse(`http://${authority}/`) ? new URL(`http://${authority}/`) : undefined;
  if (!url || !(port > 0) || url.username || url.pathname !== "/") throw new Refused("CONNECT needs host:port");
  const host = hostOf(url);
  const upstream = await dial(await judge(host, port), port);
  track(upstream);
  client.once("close", () => upstream.destroy());
  upstream.once("close", () => client.destroy());
  client.write("HTTP/1.1 200 Connection established\r\n\r\n");
  const greeting = await firstWords(client, head, { host, port });
  if (greeting === undefined) {
    client.destroy();
    throw new Refused(`a connection to ${host} was for another host, or not for one that can be known`);
  }
  upstream.write(greeting);
  client.pipe(upstream);
  upstream.pipe(client);
}

/** What the client said first, once it is known to be meant for this host. */
async function firstWords(
  client: Socket,
  head: Buffer,
  goal: { host: string; port: number },
): Promise<Buffer | undefined> {
  let words = head;
  const timer = setTimeout(() => client.destroy(), GREETING_TIMEOUT_MS);
  try {
    for (;;) {
      const greeting = readGreeting(words);
      if (greeting.kind === "other") return goal.port === 443 ? undefined : words;
      if (greeting.kind === "tls") return (greeting.serverName ?? goal.host) === goal.host ? words : undefined;
      const more = await nextChunk(client);
      if (!more) return undefined;
      words = Buffer.concat([words, more]);
    }
  } finally {
    clearTimeout(timer);
  }
}

function nextChunk(socket: Socket): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const settle = (chunk: Buffer | undefined): void => {
      socket.off("data", settle).off("end", ended).off("close", ended);
      socket.pause();
      resolve(chunk);
    };
    const ended = (): void => settle(undefined);
    socket.on("data", settle).on("end", ended).on("close", ended);
    socket.resume();
  });
}

function dial(address: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port });
    const timer = setTimeout(() => socket.destroy(new Error("no answer")), CONNECT_TIMEOUT_MS);
    socket.once("connect", () => {
      clearTimeout(timer);
      resolve(socket);
    });
    socket.once("error", (error) => {
      clearTimeout(timer);
      reject(error);
    });
  });
}

/** Without the brackets of IPv6 and the dot of a full name. `URL` has made one form of all ways to write an address. */
function hostOf(url: URL): string {
  return url.hostname
    .toLowerCase()
    .replace(/^\[|\]$/g, "")
    .replace(/\.$/, "");
}

function refuse(outgoing: ServerResponse, error: unknown, logRefusal: (message: string) => void): void {
  const { status, message } = describe(error, logRefusal);
  if (outgoing.headersSent) return void outgoing.destroy();
  outgoing.writeHead(Number.parseInt(status, 10), { "content-type": "text/plain", connection: "close" });
  outgoing.end(`${message}\n`);
}

function describe(error: unknown, logRefusal: (message: string) => void): { status: string; message: string } {
  const detail = error instanceof Error ? error.message : String(error);
  if (!(error instanceof Refused)) return { status: "502 Bad Gateway", message: `Cellwright's proxy: ${detail}` };
  logRefusal(detail);
  return { status: "403 Forbidden", message: `Cellwright's network rules: ${detail} (--allow-net).` };
}

function limitedLog(log: Log): (message: string) => void {
  let since = 0;
  let count = 0;
  return (message) => {
    if (Date.now() - since > 60_000) {
      since = Date.now();
      count = 0;
    }
    count += 1;
    if (count <= MAX_LOGGED) log.warn(`network refused: ${message.slice(0, 300)}`);
    if (count === MAX_LOGGED) log.warn("network refused: more of these are not logged for a minute");
  };
}
