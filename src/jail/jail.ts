/**
 * What a jailed process may touch. Everything that is not named here is out of its reach, the network included. Plain
 * JSON: bubblewrap's command line is made from it, and `host/jail.py` builds the same walls around itself.
 */
export interface Jail {
  isolation: Isolation;
  /** Files and folders it may read, by the path it sees them at. */
  readOnly: Mount[];
  /** Folders it may change as well. A read-only mount below one of them stays read-only. */
  readWrite: Mount[];
  /** Folders it may change although not all in them is in `readWrite`; without namespaces only (`host/gate_files.py`). */
  guarded?: GuardedFolder[];
  /** Folders, as it sees them, with pipes to write to; a read-only mount does not keep it from that, Landlock does. */
  pipes?: string[];
  /** Links of its own, such as `/bin` to `usr/bin`. */
  symlinks?: Symlink[];
  /** Folders that it sees empty although they are below one of its mounts. */
  hidden?: string[];
  /**
   * The folders that are its session's alone. Absent: nothing it sees is anyone else's, so no socket of another program
   * is in its reach. Otherwise it may connect to Unix sockets in these only.
   */
  ownFolders?: string[];
  /** Its whole environment. */
  env: Record<string, string>;
  workingDir: string;
  /** `none`, unless said: a loopback of its own. `host`: the network of the machine. */
  network?: "none" | "host";
  /** The way out of network `none`: what is sent to `PROXY_PORT` on its loopback reaches the proxy's socket. */
  proxy?: ProxyDoor;
  /** The size of its own /tmp, and of its /dev/shm. Without it: half of the machine's memory. */
  tmpMb?: number;
  /**
   * How much may be in some of its folders, counted before it is written: for programs that are fast but not hostile,
   * since what a program maps into its memory is not seen. Needs a launcher that judges; see `Isolation`.
   */
  quota?: Quota | undefined;
  /** Whether it may make namespaces inside, to build a sandbox of its own. */
  nests?: boolean;
}

/**
 * The tiers of isolation. `namespaces`: its own mounts, processes, network and users; paths can differ from the machine's.
 * `landlock`: no rights over other files, no network, but the machine's paths and process numbers.
 */
export type Tier = "namespaces" | "landlock";

/** How processes are isolated on this machine; found by trying (isolation.ts). */
export interface Isolation {
  tier: Tier;
  /** What starts a program in a jail. */
  launcher: Launcher;
  /**
   * What does so where system calls have to be judged, which bubblewrap cannot. Absent: then connections are refused, and
   * nothing is counted.
   */
  judgingLauncher?: Launcher | undefined;
  /** The version of Landlock; 0 where there is none. */
  landlockAbi: number;
}

/** Bubblewrap, or a Python that runs `host/launch.py`; by absolute path. */
export interface Launcher {
  kind: "bubblewrap" | "python";
  program: string;
}

export interface Mount {
  from: string;
  at: string;
}

/** A folder with something in it that stays as it is: Landlock can only grant what lies around that. */
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
  /** As the jailed process sees them. */
  folders: string[];
  bytes: number;
}

/** All paths are as the jailed process sees them. */
export interface ProxyDoor {
  /** The proxy's unix socket. */
  socket: string;
  /** A Python to forward with, and `host/forward.py`; for bubblewrap only. */
  python: string;
  script: string;
}

/** Where the jail's forwarder listens on its loopback. */
export const PROXY_PORT = 3128;

/** Where a jailed process sees a file or folder of this machine that one of its mounts names. */
export function seenAt({ readOnly, readWrite }: Pick<Jail, "readOnly" | "readWrite">, from: string): string {
  return [...readWrite, ...readOnly].find((mount) => mount.from === from)?.at ?? from;
}

/** What all processes of one session together may use. */
export interface Limits {
  memoryMb: number;
  cpus?: number | undefined;
  pids: number;
  diskMb: number;
}

/** Which tier a kernel must have: the best that works here (or it is not started), this one, none. */
export type JailMode = "auto" | Tier | "none";
