import { BlockList } from "node:net";
import { addNetwork, familyOf, isPrivateAddress } from "./addresses.ts";

/** Ports of a host that is named without one. */
const USUAL_PORTS = [80, 443];

/** What the network rules say of hosts and addresses, without asking anybody for an address. */
export interface NetRules {
  /** Why this host may not be reached, or nothing when its name allows it. Decided before the name is looked up. */
  refuseHost(host: string, port: number): string | undefined;
  /** Why an address may not be connected to, although the host was allowed. */
  refuseAddress(address: string, host: string): string | undefined;
}

interface Rule {
  matches(host: string): boolean;
  port: number | undefined;
}

/** `example.org`, `*.example.org` (hosts below it), `host:8080`, an address, `10.0.0.0/8`, `[::1]:80`, `*`. */
export function parseNetRules(allow: string[]): NetRules {
  const named = new BlockList();
  const rules = allow.map((entry) => parseRule(entry.trim(), named));
  const isNamed = (address: string): boolean => {
    const family = familyOf(address);
    return family !== undefined && named.check(address, family);
  };
  return {
    refuseHost(host, port) {
      const own = rules.filter((rule) => rule.matches(host));
      if (own.length === 0) return `${host} is not allowed`;
      const isOpen = own.some((rule) => (rule.port === undefined ? USUAL_PORTS.includes(port) : rule.port === port));
      return isOpen ? undefined : `port ${port} of ${host} is not allowed`;
    },
    refuseAddress(address, host) {
      if (!isPrivateAddress(address) || isNamed(address)) return undefined;
      return host === address
        ? `${address} is not on the public internet, and not allowed by its address`
        : `${host} is at ${address}, which is not on the public internet, and not allowed by its address`;
    },
  };
}

function parseRule(entry: string, named: BlockList): Rule {
  const { host, port } = splitPort(entry);
  if (host === "*") return { matches: () => true, port };
  if (host === "localhost") {
    addNetwork(named, "127.0.0.0/8");
    addNetwork(named, "::1");
    return { matches: (each) => each === "localhost", port };
  }
  if (host.includes("/") || familyOf(host)) {
    const network = new BlockList();
    addNetwork(network, host);
    addNetwork(named, host);
    return {
      matches: (each) => {
        const family = familyOf(each);
        return family !== undefined && network.check(each, family);
      },
      port,
    };
  }
  const suffix = host.startsWith("*.") ? host.slice(1) : undefined;
  if (!/^[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?$/.test(suffix?.slice(1) ?? host)) {
    throw new Error(
      `\`${entry}\` is not a host: expected \`example.org\`, \`*.example.org\`, \`host:443\` or an address`,
    );
  }
  return { matches: (each) => (suffix ? each.endsWith(suffix) : each === host), port };
}

function splitPort(entry: string): { host: string; port: number | undefined } {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(entry);
  // An IPv6 address without brackets has no port.
  const host = (match ? (match[1] ?? match[2] ?? "") : entry).toLowerCase().replace(/\.$/, "");
  return { host, port: match?.[3] === undefined ? undefined : Number(match[3]) };
}
