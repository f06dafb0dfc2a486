import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { isPrivateAddress, ownAddresses, privateIPv4Networks } from "../../../jail/addresses.ts";

/** Looks up the addresses of a name. */
export type Resolve = (host: string) => Promise<string[]>;

/** Whether a server is anywhere else than on the public internet. One that cannot be found is nowhere. */
export async function isPrivateHost(url: URL, resolve: Resolve = resolveName): Promise<boolean> {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(host)) return isPrivateAddress(host);
  return (await resolve(host).catch(() => [])).some(isPrivateAddress);
}

/**
 * What Deno must not connect to, whatever a name leads to when Deno looks it up itself. It knows no networks of IPv6: for
 * those there is only the look before.
 */
export function denyPrivate(): string {
  const own = ownAddresses().map((address) => (isIP(address) === 6 ? `[${address}]` : address));
  return `--deny-net=${[...new Set([...privateIPv4Networks, "[::1]", ...own])].join(",")}`;
}

async function resolveName(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}
