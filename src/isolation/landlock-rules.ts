import type { Jail, Mount } from "./jail.ts";

/** A process's Landlock rules, for `python/landlock.py`. Plain JSON. */
export interface LandlockRules {
  /** The version to use; absent: the kernel's. */
  abi?: number;
  grants: Grant[];
  /** Refuse TCP. */
  refusesTcp: boolean;
  /** Refuse abstract sockets of, and signals to, processes outside. */
  isScoped: boolean;
}

export interface Grant {
  path: string;
  /** `all`: with device ioctls; `files`: without; `memory`: files by exact name, without listing. */
  rights: "read" | "write" | "all" | "files" | "device" | "memory";
}

const devices = ["null", "zero", "full", "random", "urandom"].map((name) => `/dev/${name}`);

/** Only of the calling process, and without its view of the network, which is the host's. */
const ownProcess = [
  ...["fd", "fdinfo", "status", "stat", "statm", "maps", "smaps", "smaps_rollup", "cmdline", "comm", "environ", "auxv"],
  ...["io", "limits", "cgroup", "mounts", "oom_score", "oom_score_adj", "loginuid", "wchan"],
].map((name) => `/proc/self/${name}`);

/** Facts about the machine that programs read. */
const machine = [
  ...["cpuinfo", "meminfo", "loadavg", "stat", "uptime", "vmstat", "version", "filesystems"].map((it) => `/proc/${it}`),
  ...["kernel/osrelease", "kernel/ngroups_max", "kernel/cap_last_cap", "vm/overcommit_memory"].map(
    (name) => `/proc/sys/${name}`,
  ),
  ...["devices/system/cpu", "devices/system/node", "kernel/mm/transparent_hugepage"].map((name) => `/sys/${name}`),
];

/** Undefined: no rules. A sandbox that is built inside needs mounts, which Landlock forbids. */
export function landlockRules(jail: Jail): LandlockRules | undefined {
  if (jail.isolation.tier === "landlock") return onlyLayer(jail);
  return jail.nests ? undefined : withinNamespaces(jail);
}

/** Without namespaces: only the paths that the policy names, and no TCP. */
function onlyLayer({ isolation, readOnly, readWrite, pipes = [] }: Jail): LandlockRules {
  return {
    // The version for which the seccomp filter was built; it blocks what an old version cannot.
    abi: isolation.landlockAbi,
    grants: [
      ...grants(sources(readOnly), "read"),
      ...grants(sources(readWrite), "files"),
      ...grants(pipes, "write"),
      ...grants(devices, "device"),
      ...grants([...machine, ...ownProcess], "read"),
      ...grants(["/dev/shm"], "memory"),
    ],
    refusesTcp: true,
    isScoped: true,
  };
}

/** A second layer: mounts already define what is visible; this repeats what is writable. */
function withinNamespaces({ readWrite, pipes = [] }: Jail): LandlockRules {
  const writable = [...readWrite.map(({ at }) => at), "/tmp", "/dev", "/proc"];
  return {
    grants: [...grants(["/"], "read"), ...grants(writable, "all"), ...grants(pipes, "write")],
    refusesTcp: false,
    isScoped: true,
  };
}

/** For a zygote, whose forks are restricted further: what all of them need, and what building a jail needs. */
export function enclosureRules(options: {
  abi: number;
  readOnly: Mount[];
  readWrite: Mount[];
  network: boolean;
}): LandlockRules {
  const { abi, readOnly, readWrite, network } = options;
  return {
    abi,
    grants: [
      ...grants([...sources(readOnly), "/proc", "/sys"], "read"),
      ...grants([...sources(readWrite), "/dev", "/sys/fs/cgroup"], "all"),
    ],
    refusesTcp: !network,
    isScoped: false,
  };
}

function sources(mounts: Mount[]): string[] {
  return mounts.map(({ from }) => from);
}

function grants(paths: string[], rights: Grant["rights"]): Grant[] {
  return paths.map((path) => ({ path, rights }));
}
