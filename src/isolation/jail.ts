/**
 * The policy of one jailed process: an allowlist of everything it can access, including the network. Plain JSON, from
 * which bubblewrap's command line and the request for `python/jail.py` are made.
 */
export interface Jail {
  isolation: Isolation;
  /** Files and folders it may read, each with the path at which it sees them. */
  readOnly: Mount[];
  /** Folders it may also write. A read-only mount below one of them stays read-only. */
  readWrite: Mount[];
  /** Landlock tier: folders it may write except for some paths, enforced by the gate (`python/gate/files.py`). */
  guarded?: GuardedFolder[];
  /** Folders with FIFOs that it writes to, by the paths it sees. Landlock has to allow that; a read-only mount does. */
  pipes?: string[];
  /** Symlinks to create, such as `/bin` to `usr/bin`. */
  symlinks?: Symlink[];
  /** Folders below its mounts that it sees as empty. */
  hidden?: string[];
  /**
   * Folders that only its session uses; it may connect to Unix sockets in these only. Absent: it sees no other
   * folders, so it cannot reach a socket of another program.
   */
  ownFolders?: string[];
  /** Its whole environment. */
  env: Record<string, string>;
  workingDir: string;
  /** Default `none`: only its own loopback. `host`: the network of the machine. */
  network?: "none" | "host";
  /** With network `none`: `PROXY_PORT` on its loopback is forwarded to the proxy's socket. */
  proxy?: ProxyDoor;
  /** Size of its own /tmp, and of its /dev/shm. Default: half of the machine's memory. */
  tmpMb?: number;
  /**
   * Quota of some of its folders, checked before each write. Not for hostile programs: writes to memory-mapped files
   * are not counted. Needs a gate; see `Isolation.gateLauncher`.
   */
  quota?: Quota | undefined;
  /** It may create namespaces, to build its own sandbox inside. */
  nests?: boolean;
}

/**
 * The tiers of isolation. `namespaces`: own mounts, processes, network and users; paths can differ from the host's.
 * `landlock`: no access to other files, no network, but the host's paths and pids.
 */
export type Tier = "namespaces" | "landlock";

/** How processes are isolated on this machine; detected by isolation.ts. */
export interface Isolation {
  tier: Tier;
  /** Starts a program in a jail. */
  launcher: Launcher;
  /**
   * The same for jails with a gate, which bubblewrap cannot provide. Absent: their connections are refused, and their
   * quotas not enforced.
   */
  gateLauncher?: Launcher | undefined;
  /** The version of Landlock; 0: not available. */
  landlockAbi: number;
}

/** Bubblewrap, or a Python that runs `python/launch.py`; by absolute path. */
export interface Launcher {
  kind: "bubblewrap" | "python";
  program: string;
}

export interface Mount {
  from: string;
  at: string;
}

/** A writable folder with read-only paths in it: Landlock can only grant the entries around those. */
export interface GuardedFolder {
  folder: string;
  /** Real paths below it, existing or not. */
  except: string[];
}

export interface Symlink {
  at: string;
  to: string;
}

export interface Quota {
  /** Paths as the jailed process sees them. */
  folders: string[];
  bytes: number;
}

/** All paths are as the jailed process sees them. */
export interface ProxyDoor {
  /** The proxy's unix socket. */
  socket: string;
  /** For bubblewrap only: it runs `python/forward.py`. */
  python: string;
}

/** The port on the jail's loopback on which its forwarder listens. */
export const PROXY_PORT = 3128;

/** The path at which a jailed process sees a mounted file or folder. */
export function seenAt({ readOnly, readWrite }: Pick<Jail, "readOnly" | "readWrite">, from: string): string {
  return [...readWrite, ...readOnly].find((mount) => mount.from === from)?.at ?? from;
}

/** Limits for all processes of one session together. */
export interface Limits {
  memoryMb: number;
  cpus?: number | undefined;
  pids: number;
  diskMb: number;
}

/** The tier that a kernel must have: the best that works here (or it is not started), this one, or none. */
export type JailMode = "auto" | Tier | "none";
