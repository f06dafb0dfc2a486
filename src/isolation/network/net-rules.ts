import { BlockList } from "node:net";
import { addNetwork, addressFamily, isPrivateAddress } from "./addresses.ts";

/** Ports allowed for a rule without a port. */
const DEFAULT_PORTS = [80, 443];

/** The rules of --allow-net for hosts and addresses. No DNS lookups. */
export interface NetRules {
  /** Why this host is refused; undefined if its name is allowed. Called before the DNS lookup. */
  refuseHost(host: string, port: number): string | undefined;
  /** Why an address of an allowed host is refused; undefined if it is allowed. */
  refuseAddress(address: string, host: string, port: number): string | undefined;
}

interface Rule {
  matches(host: string): boolean;
  port: number | undefined;
  /** Private addresses that hosts of this rule may have. */
  addresses?: BlockList;
  /** `any`: every host, including those that an attacker controls. */
  kind: "any" | "name" | "address";
}

/** `example.org`, `*.example.org` (hosts below it), `host:8080`, an address, `10.0.0.0/8`, `[::1]:80`, `*`. */
export function parseNetRules(allow: string[]): NetRules {
  const rules = allow.map((entry) => parseRule(entry.trim()));
  const isOpen = (rule: Rule, port: number) =>
    rule.port === undefined ? DEFAULT_PORTS.includes(port) : rule.port === port;
  const opening = (host: string, port: number) => rules.filter((rule) => rule.matches(host) && isOpen(rule, port));
  const holds = ({ addresses }: Rule, address: string): boolean => {
    const family = addressFamily(address);
    return family !== undefined && addresses?.check(address, family) === true;
  };
  /**
   * A rule with an address and a port allows exactly that. One without a port, or a network, also allows hosts that are
   * allowed by name to have such an address.
   */
  const isNamed = (address: string, host: string, port: number): boolean => {
    const own = opening(host, port);
    if (own.some((rule) => holds(rule, address))) return true;
    const isNamedHost = own.some(({ kind }) => kind === "name");
    const whole = rules.filter(({ kind, port }) => kind === "address" && port === undefined);
    return isNamedHost && whole.some((rule) => holds(rule, address));
  };
  return {
    refuseHost(host, port) {
      if (opening(host, port).length > 0) return undefined;
      const isKnown = rules.some((rule) => rule.matches(host));
      return isKnown ? `port ${port} of ${host} is not allowed` : `${host} is not allowed`;
    },
    refuseAddress(address, host, port) {
      if (!isPrivateAddress(address) || isNamed(address, host, port)) return undefined;
      return host === address
        ? `${address} is not on the public internet, and not allowed by its address`
        : `${host} is at ${address}, which is not on the public internet, and not allowed by its address`;
    },
  };
}

function parseRule(entry: string): Rule {
  const { host, port } = splitPort(entry);
  if (host === "*") return { kind: "any", matches: () => true, port };
  if (host === "localhost") {
    const addresses = networks("127.0.0.0/8", "::1");
    return { kind: "name", matches: (each) => each === "localhost", port, addresses };
  }
  if (host.includes("/") || addressFamily(host)) {
    const addresses = networks(host);
    return {
      kind: "address",
      matches: (each) => {
        const family = addressFamily(each);
        return family !== undefined && addresses.check(each, family);
      },
      port,
      addresses,
    };
  }
  const suffix = host.startsWith("*.") ? host.slice(1) : undefined;
  if (!/^[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?$/.test(suffix?.slice(1) ?? host)) {
    throw new Error(
      `\`${entry}\` is not a host: expected \`example.org\`, \`*.example.org\`, \`host:443\` or an address`,
    );
  }
  return { kind: "name", matches: (each) => (suffix ? each.endsWith(suffix) : each === host), port };
}

function networks(...list: string[]): BlockList {
  const found = new BlockList();
  for (const network of list) addNetwork(found, network);
  return found;
}

function splitPort(entry: string): { host: string; port: number | undefined } {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(entry);
  // An IPv6 address without brackets has no port.
  const host = (match ? (match[1] ?? match[2] ?? "") : entry).toLowerCase().replace(/\.$/, "");
  return { host, port: match?.[3] === undefined ? undefined : Number(match[3]) };
}
