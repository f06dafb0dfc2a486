import type { Jail } from "./jail.ts";
import { type FilterOptions, gateFilter, noNetworkFilter, type Sockets, seccompFilter } from "./seccomp.ts";

/** Whatever the server's user is: its files belong to this one inside. */
export const UID = 1000;
export const HOST_NAME = "cellwright";

/** What of /proc speaks of the machine instead of its processes. A root without capabilities could still read some of it. */
export const coveredProc = [
  ...["acpi", "asound", "fs", "iomem", "kallsyms", "kcore", "keys", "kmsg", "kpagecgroup", "kpagecount", "kpageflags"],
  ...["latency_stats", "pagetypeinfo", "pressure", "sched_debug", "scsi", "slabinfo", "timer_list", "vmallocinfo"],
];

/** What of it can change the machine: a root without capabilities could. */
export const readOnlyProc = ["sys", "sysrq-trigger", "irq", "bus", "mtrr"];

/** Landlock stops `truncate` by path from this version on, and signals to others from that one. */
const TRUNCATE_ABI = 3;
const SIGNALS_ABI = 6;

/** What `host/jail.py` is told: the policy, and all that both ways to build a jail have in common. */
export function jailRequest(jail: Jail): object {
  const { isolation, proxy, guarded: _, ...policy } = jail;
  const filter = seccompFilter(filterOptions(jail));
  return {
    ...policy,
    tier: isolation.tier,
    landlockAbi: isolation.landlockAbi,
    ...(proxy && { proxy: { socket: proxy.socket } }),
    uid: UID,
    hostName: HOST_NAME,
    proc: { covered: coveredProc, readOnly: readOnlyProc },
    seccomp: filter && hex(filter),
    gate: gateOf(jail),
  };
}

/** The filter of a jail that bubblewrap builds: it has no process that could judge connections or set limits inside. */
export function bubblewrapFilter(jail: Jail): Uint8Array | undefined {
  return seccompFilter({ ...filterOptions(jail), connects: !judgesConnections(jail), watches: false });
}

/** For a process without namespaces whose forks have filters of their own: no network, and nothing else is refused. */
export function enclosureFilter(): string | undefined {
  const filter = noNetworkFilter();
  return filter && hex(filter);
}

function filterOptions(jail: Jail): FilterOptions {
  const { tier, landlockAbi } = jail.isolation;
  const isApart = tier === "namespaces";
  return {
    sockets: socketsOf(jail),
    apart: isApart,
    nests: jail.nests ?? false,
    watches: isApart,
    truncates: isApart || landlockAbi >= TRUNCATE_ABI,
  };
}

function socketsOf(jail: Jail): Sockets {
  if (jail.isolation.tier === "landlock") return jail.proxy ? "proxied" : "unix";
  return judgesConnections(jail) ? "gated" : "namespace";
}

/** Whether some of its system calls are judged by the gate, for which bubblewrap has no process. */
export function isGated(jail: Jail): boolean {
  return judgesConnections(jail) || jail.quota !== undefined;
}

/** Without namespaces every Unix socket of the machine can be named; otherwise those in folders that are not its own. */
function judgesConnections({ isolation, ownFolders }: Jail): boolean {
  return isolation.tier === "landlock" || ownFolders !== undefined;
}

function gateOf(jail: Jail): object | undefined {
  if (!isGated(jail)) return undefined;
  const { tier, landlockAbi } = jail.isolation;
  const isApart = tier === "namespaces";
  const signals = !isApart && landlockAbi < SIGNALS_ABI;
  const { guarded = [], ownFolders = [], readWrite, quota } = jail;
  const names = guarded.length > 0;
  const gate = gateFilter({
    connections: judgesConnections(jail),
    tcp: socketsOf(jail) === "proxied",
    signals,
    files: !isApart,
    names,
    quota: quota !== undefined,
  });
  if (!gate) return undefined;
  const tcp = isApart ? "namespace" : jail.proxy ? "bridge" : "none";
  const writable = readWrite.map(({ at }) => at);
  return { filter: hex(gate.filter), calls: gate.calls, ownFolders, writable, guarded, tcp, quota };
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
