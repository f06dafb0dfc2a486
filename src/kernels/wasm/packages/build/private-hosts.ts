import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { isPrivateAddress, ownAddresses, privateIPv4Networks } from "../../../../isolation/network/addresses.ts";

/** Resolves a host name to addresses. */
export type Resolve = (host: string) => Promise<string[]>;

/** Whether a server is outside the public internet. False for names that do not resolve. */
export async function isPrivateHost(url: URL, resolve: Resolve = resolveName): Promise<boolean> {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(host)) return isPrivateAddress(host);
  return (await resolve(host).catch(() => [])).some(isPrivateAddress);
}

/**
 * Deno's deny list, which applies when Deno resolves a name itself. It has no IPv6 networks: those are only checked
 * beforehand.
 */
export function denyPrivate(): string {
  const own = ownAddresses().map((address) => (isIP(address) === 6 ? `[${address}]` : address));
  return `--deny-net=${[...new Set([...privateIPv4Networks, "[::1]", ...own])].join(",")}`;
}

async function resolveName(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}
