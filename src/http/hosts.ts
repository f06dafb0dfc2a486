import type { IncomingMessage } from "node:http";
import { isIPv4 } from "node:net";

/**
 * Protects against web pages: a browser page can send requests here under its own Origin or, by DNS rebinding, under
 * its own Host. Both must be names of this server.
 */
export function createHostCheck({ host, allowedHosts }: { host: string; allowedHosts: string[] }) {
  const allowed = new Set([host, ...allowedHosts].map(hostnameOf).filter((name) => !isWildcard(name)));
  const isAllowed = (name: string | undefined) => name !== undefined && (isLoopback(name) || allowed.has(name));

  /** Why the request is refused; undefined if it is allowed. */
  return ({ headers }: IncomingMessage): string | undefined => {
    const name = headers.host === undefined ? undefined : hostnameOf(headers.host);
    if (!isAllowed(name)) {
      return `Host ${name ?? "(none)"} is not allowed. Start Cellwright with --allowed-hosts if it is this server's name.`;
    }
    if (headers.origin === undefined) return undefined;
    const origin = URL.canParse(headers.origin) ? new URL(headers.origin).hostname : undefined;
    return isAllowed(origin) ? undefined : `Origin ${headers.origin.slice(0, 200)} is not allowed.`;
  };
}

/** Whether an address can only be reached from this machine. */
export function isLoopback(host: string): boolean {
  const name = hostnameOf(host);
  return name === "localhost" || name === "[::1]" || (isIPv4(name) && name.startsWith("127."));
}

/** `Example.com:8000` → `example.com`, `::1` → `[::1]`; an invalid host is returned unchanged and matches nothing. */
function hostnameOf(host: string): string {
  const bracketed = /^[0-9a-f:]*:[0-9a-f:]*:[0-9a-f:.]*$/i.test(host) ? `[${host}]` : host;
  if (/[/?#@\\\s]/.test(bracketed) || !URL.canParse(`http://${bracketed}`)) return host;
  return new URL(`http://${bracketed}`).hostname;
}

const isWildcard = (name: string) => name === "0.0.0.0" || name === "[::]";
