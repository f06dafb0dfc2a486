import type { IncomingMessage } from "node:http";
import { connect, isIP, type Socket } from "node:net";
import { readGreeting } from "./client-hello.ts";
import { Refused } from "./proxy-refusal.ts";

const CONNECT_TIMEOUT_MS = 20_000;
const PLAIN_PORT = 80;
const TLS_PORT = 443;
/** How long a client may take to say the first words in its tunnel. */
const GREETING_TIMEOUT_MS = 20_000;

/** The address to connect to for a host, or a rejection. */
export type Judge = (host: string, port: number) => Promise<string>;

/**
 * `CONNECT host:443`. What is said inside is encrypted, but for the name in its first words, which must be the same. To
 * port 80 there is no tunnel: the web in the clear is asked for by whole addresses, each of which is judged.
 */
export async function openTunnel(
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
  const address = await judge(host, port);
  if (port === PLAIN_PORT) {
    throw new Refused(`CONNECT to port 80 of ${host} cannot be judged: ask the proxy for http://${host}/`, host);
  }
  const upstream = await dial(address, port);
  track(upstream);
  client.once("close", () => upstream.destroy());
  upstream.once("close", () => client.destroy());
  client.write("HTTP/1.1 200 Connection established\r\n\r\n");
  const greeting = await firstWords(client, head, { host, port });
  if (greeting === undefined) {
    client.destroy();
    throw new Refused(`a connection to ${host} was for another host, or for none that can be known`, host);
  }
  upstream.write(greeting);
  client.pipe(upstream);
  upstream.pipe(client);
}

/**
 * What the client said first, once it is known to be meant for this host. TLS to a host with a name must say that name;
 * to an address it says none. On a port that the rules name, other protocols than TLS are spoken as well.
 */
async function firstWords(
  client: Socket,
  head: Buffer,
  goal: { host: string; port: number },
): Promise<Buffer | undefined> {
  let words = head;
  const timer = setTimeout(() => client.destroy(), GREETING_TIMEOUT_MS);
  const own = isIP(goal.host) ? undefined : goal.host;
  try {
    for (;;) {
      const greeting = readGreeting(words);
      if (greeting.kind === "other") return goal.port === TLS_PORT ? undefined : words;
      if (greeting.kind === "tls") return [own, goal.host].includes(greeting.serverName) ? words : undefined;
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
export function hostOf(url: URL): string {
  return url.hostname
    .toLowerCase()
    .replace(/^\[|\]$/g, "")
    .replace(/\.$/, "");
}
