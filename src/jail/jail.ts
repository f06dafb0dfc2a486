/**
 * What a jailed process may touch. Everything that is not named here is out of its reach, the network included.
 * It has its own /proc, /dev, /tmp and /dev/shm, and can write nowhere else but below `readWrite`. Plain JSON: bubblewrap's
 * command line is made from it, and `host/jail.py` builds the same walls after a fork.
 */
export interface Jail {
  /** Files and folders it may read, by the path it sees them at. */
  readOnly: Mount[];
  /** Folders it may change as well. A read-only mount below one of them stays read-only. */
  readWrite: Mount[];
  /** Links of its own, such as `/bin` to `usr/bin`. */
  symlinks?: Symlink[];
  /** Folders that it sees empty although they are below one of its mounts. */
  hidden?: string[];
  /** Its whole environment. */
  env: Record<string, string>;
  workingDir: string;
  /** `none`, unless said: a loopback of its own. `host`: the network of the machine. */
  network?: "none" | "host";
  /** The way out of network `none`: what is sent to `PROXY_PORT` on its loopback reaches the proxy's socket. */
  proxy?: ProxyDoor;
  /** The size of its own /tmp, and of its /dev/shm. Without it: half of the machine's memory. */
  tmpMb?: number;
}

export interface Mount {
  from: string;
  at: string;
}

export interface Symlink {
  at: string;
  to: string;
}

/** All paths are as the jailed process sees them. */
export interface ProxyDoor {
  /** The proxy's unix socket. */
  socket: string;
  /** A Python to forward with, and `host/forward.py`. After a fork neither is needed. */
  python: string;
  script: string;
}

/** Where the jail's forwarder listens on its loopback. */
export const PROXY_PORT = 3128;

/** What all processes of one session together may use. */
export interface Limits {
  memoryMb: number;
  cpus?: number | undefined;
  pids: number;
  diskMb: number;
}

/** Whether a kernel is jailed: when it can be, always (or not started), never. */
export type JailMode = "auto" | "bwrap" | "none";
