import type { IncomingMessage } from "node:http";
import { connect, isIP, type Socket } from "node:net";
import { readGreeting } from "./client-hello.ts";
import { Refused } from "./proxy-refusal.ts";

const CONNECT_TIMEOUT_MS = 20_000;
const HTTP_PORT = 80;
const TLS_PORT = 443;
/** Timeout for the first bytes in a tunnel. */
const GREETING_TIMEOUT_MS = 20_000;

/** Resolves to the address to connect to for a host; rejects if it is refused. */
export type AllowedAddress = (host: string, port: number) => Promise<string>;

/**
 * Handles `CONNECT host:443`. The traffic is encrypted, except for the server name (SNI) in the ClientHello, which must
 * be the same host. Tunnels to port 80 are refused: plain HTTP is requested by absolute URL, so that each is checked.
 */
export async function openTunnel(
  incoming: IncomingMessage,
  client: Socket,
  head: Buffer,
  { allowedAddress, track }: { allowedAddress: AllowedAddress; track: (socket: Socket) => void },
): Promise<void> {
  const authority = incoming.url ?? "";
  const port = Number(/:(\d{1,5})$/.exec(authority)?.[1] ?? Number.NaN);
  const url = URL.canParse(`http://${authority}/`) ? new URL(`http://${authority}/`) : undefined;
  if (!url || !(port > 0) || url.username || url.pathname !== "/") throw new Refused("CONNECT needs host:port");
  const host = hostOf(url);
  const address = await allowedAddress(host, port);
  if (port === HTTP_PORT) {
    throw new Refused(`CONNECT to port 80 of ${host} is not supported: request http://${host}/ from the proxy`, host);
  }
  const upstream = await dial(address, port);
  track(upstream);
  client.once("close", () => upstream.destroy());
  upstream.once("close", () => client.destroy());
  client.write("HTTP/1.1 200 Connection established\r\n\r\n");
  const greeting = await checkedGreeting(client, head, { host, port });
  if (greeting === undefined) {
    client.destroy();
    throw new Refused(`the TLS server name of a connection to ${host} is another host, or missing`, host);
  }
  upstream.write(greeting);
  client.pipe(upstream);
  upstream.pipe(client);
}

/**
 * The client's first bytes; undefined if they are not meant for this host. TLS must name the host, or nothing if the
 * host is an address. On ports other than 443, which only explicit rules allow, other protocols are accepted, too.
 */
async function checkedGreeting(
  client: Socket,
  head: Buffer,
  goal: { host: string; port: number },
): Promise<Buffer | undefined> {
  let bytes = head;
  const timer = setTimeout(() => client.destroy(), GREETING_TIMEOUT_MS);
  const own = isIP(goal.host) ? undefined : goal.host;
  try {
    for (;;) {
      const greeting = readGreeting(bytes);
      if (greeting.kind === "other") return goal.port === TLS_PORT ? undefined : bytes;
      if (greeting.kind === "tls") return [own, goal.host].includes(greeting.serverName) ? bytes : undefined;
      const more = await nextChunk(client);
      if (!more) return undefined;
      bytes = Buffer.concat([bytes, more]);
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

/** Without IPv6 brackets and the trailing dot. `URL` has normalized addresses already. */
export function hostOf(url: URL): string {
  return url.hostname
    .toLowerCase()
    .replace(/^\[|\]$/g, "")
    .replace(/\.$/, "");
}
