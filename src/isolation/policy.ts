import { type Jail, PROXY_PORT } from "./jail.ts";
import { landlockRules } from "./landlock-rules.ts";
import { BLOCK_BYTES } from "./limits/disk-use.ts";
import { orderedMounts } from "./mounts/ordered.ts";
import { type FilterOptions, gateFilter, noNetworkFilter, type Sockets, seccompFilter } from "./seccomp/seccomp.ts";

/** The jail's user, to which the server's user is mapped. */
export const UID = 1000;
export const HOST_NAME = "cellwright";

/**
 * Files in /proc about the machine instead of its processes. Root without capabilities could still read some of them.
 */
export const coveredProc = [
  ...["acpi", "asound", "fs", "iomem", "kallsyms", "kcore", "keys", "kmsg", "kpagecgroup", "kpagecount", "kpageflags"],
  ...["latency_stats", "pagetypeinfo", "pressure", "sched_debug", "scsi", "slabinfo", "timer_list", "vmallocinfo"],
];

/** Files in /proc that can change the machine, even for root without capabilities. */
export const readOnlyProc = ["sys", "sysrq-trigger", "irq", "bus", "mtrr"];

/** Landlock versions that restrict `truncate` by path, and signals to other processes. */
export const TRUNCATE_ABI = 3;
export const SIGNALS_ABI = 6;

const MB = 1024 * 1024;
/** The jail's root contains only mount points. */
export const ROOT_BYTES = 4 * MB;
/** An empty folder. */
const HIDDEN_BYTES = 64 * 1024;
/** Limit of files in its /tmp and in its /dev/shm: even an empty one takes memory. */
const MAX_FILES_IN_MEMORY = 200_000;
const devices = ["null", "zero", "full", "random", "urandom", "tty"];

/** Instances used inside count for the host's user as well, whose default limit is 128. */
const inotifyLimits = { max_inotify_instances: 4, max_inotify_watches: 4096 };

/** The request for `python/jail.py`, which only executes it: every decision is made here. */
export function jailRequest(jail: Jail): object {
  const { isolation, env, workingDir, proxy } = jail;
  const hasNamespaces = isolation.tier === "namespaces";
  return {
    tier: isolation.tier,
    env,
    workingDir,
    namespaces: hasNamespaces ? namespaceRules(jail) : undefined,
    landlock: landlockRules(jail),
    // Without its own loopback there is no port: the gate hands over each connection.
    proxy: proxy && { socket: proxy.socket, port: hasNamespaces ? PROXY_PORT : null },
    seccomp: hex(seccompFilter(filterOptions(jail))),
    gate: gateOf(jail),
  };
}

/** Size and number of files of a tmpfs. */
export function memoryRules(sizeMb: number | undefined): object {
  return { files: MAX_FILES_IN_MEMORY, bytes: sizeMb && sizeMb * MB };
}

function namespaceRules(jail: Jail): object {
  return {
    uid: UID,
    hostName: HOST_NAME,
    sharesNetwork: jail.network === "host",
    mounts: orderedMounts(jail),
    symlinks: jail.symlinks ?? [],
    rootBytes: ROOT_BYTES,
    hiddenBytes: HIDDEN_BYTES,
    memory: memoryRules(jail.tmpMb),
    devices,
    proc: { covered: coveredProc, readOnly: readOnlyProc },
    userLimits: { ...(jail.nests ? {} : { max_user_namespaces: 0 }), ...inotifyLimits },
  };
}

/** The filter for bubblewrap, which has no gate to judge connections and no process to set limits inside. */
export function bubblewrapFilter(jail: Jail): Uint8Array {
  return seccompFilter({ ...filterOptions(jail), connects: !judgesConnections(jail), watches: false });
}

/** For a zygote without namespaces, whose forks get their own filters: blocks the network only. */
export function enclosureFilter(): string {
  return hex(noNetworkFilter());
}

function filterOptions(jail: Jail): FilterOptions {
  const { tier, landlockAbi } = jail.isolation;
  const hasNamespaces = tier === "namespaces";
  return {
    sockets: socketsOf(jail),
    apart: hasNamespaces,
    nests: jail.nests ?? false,
    watches: hasNamespaces,
    truncates: hasNamespaces || landlockAbi >= TRUNCATE_ABI,
  };
}

function socketsOf(jail: Jail): Sockets {
  if (jail.isolation.tier === "landlock") return jail.proxy ? "proxied" : "unix";
  return judgesConnections(jail) ? "gated" : "namespace";
}

/** Whether the jail needs a gate, which bubblewrap does not provide. */
export function isGated(jail: Jail): boolean {
  return judgesConnections(jail) || jail.quota !== undefined;
}

/** Without namespaces every Unix socket of the host is reachable; with them, those in folders shared with others. */
function judgesConnections({ isolation, ownFolders }: Jail): boolean {
  return isolation.tier === "landlock" || ownFolders !== undefined;
}

function gateOf(jail: Jail): object | undefined {
  if (!isGated(jail)) return undefined;
  const { tier, landlockAbi } = jail.isolation;
  const hasNamespaces = tier === "namespaces";
  const signals = !hasNamespaces && landlockAbi < SIGNALS_ABI;
  const { guarded = [], ownFolders = [], readWrite, quota } = jail;
  const names = guarded.length > 0;
  const gate = gateFilter({
    connections: judgesConnections(jail),
    tcp: socketsOf(jail) === "proxied",
    signals,
    files: !hasNamespaces,
    names,
    quota: quota !== undefined,
  });
  return {
    filter: hex(gate.filter),
    calls: gate.calls,
    ownFolders,
    writable: readWrite.map(({ at }) => at),
    guarded,
    // TCP goes to its own network; without one, only this port is connected, to the proxy.
    ownNetwork: hasNamespaces,
    bridgePort: PROXY_PORT,
    quota: quota && { ...quota, blockBytes: BLOCK_BYTES },
  };
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
