import { BlockList, isIP } from "node:net";
import { networkInterfaces } from "node:os";

/** Networks outside the public internet: the machine, its local network, cloud metadata, and reserved ranges. */
export const privateIPv4Networks: readonly string[] = [
  ...["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"],
  ...["192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"],
  ...["224.0.0.0/4", "240.0.0.0/4"],
];
const privateNetworks = new BlockList();
for (const network of [
  ...privateIPv4Networks,
  // Also IPv6 ranges that embed an IPv4 address, which gateways translate back (NAT64, 6to4, Teredo).
  ...["::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"],
  ...["5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"],
]) {
  addNetwork(privateNetworks, network);
}

/** True for any address that is not on the public internet, including this machine's own. */
export function isPrivateAddress(address: string): boolean {
  const plain = withoutZone(address);
  const family = addressFamily(plain);
  if (family === undefined || privateNetworks.check(plain, family)) return true;
  return ownAddresses().includes(plain);
}

/** Addresses of all interfaces of this machine. */
export function ownAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return all.map(({ address }) => withoutZone(address));
}

/** `BlockList` itself checks `::ffff:10.0.0.1` against IPv4 networks. */
export function addressFamily(address: string): "ipv4" | "ipv6" | undefined {
  const family = isIP(address);
  return family === 4 ? "ipv4" : family === 6 ? "ipv6" : undefined;
}

/** Adds `10.0.0.0/8`, or one address. Throws if it is invalid. */
export function addNetwork(list: BlockList, network: string): void {
  const [address = "", bits] = network.split("/");
  const family = addressFamily(address);
  if (!family) throw new Error(`\`${network}\` is neither an address nor a network`);
  const prefix = bits === undefined ? (family === "ipv4" ? 32 : 128) : Number(bits);
  if (!Number.isInteger(prefix) || prefix < 0 || prefix > (family === "ipv4" ? 32 : 128)) {
    throw new Error(`\`${network}\` is not a network: the number after / is wrong`);
  }
  list.addSubnet(address, prefix, family);
}

function withoutZone(address: string): string {
  return address.split("%")[0] ?? address;
}
