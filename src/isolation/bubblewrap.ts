import { existsSync, lstatSync } from "node:fs";
import type { Jail } from "./jail.ts";
import { type OrderedMount, orderedMounts } from "./mounts/ordered.ts";
import { coveredProc, HOST_NAME, readOnlyProc, UID } from "./policy.ts";

/** Default descriptor on which bubblewrap reports its child's pid: the first after stderr. */
export const INFO_FD = 3;

/** Default descriptor from which it reads the seccomp filter. */
export const SECCOMP_FD = 4;

const isolationArgs = [
  // User, process, network, IPC, host name and cgroup namespaces.
  "--unshare-all",
  "--unshare-user",
  "--uid",
  String(UID),
  "--gid",
  String(UID),
  "--hostname",
  HOST_NAME,
  "--cap-drop",
  "ALL",
  "--new-session",
];

export interface BubblewrapOptions {
  /** The descriptor on which it reports its child's pid, as seen from the host. */
  infoFd?: number;
  /** The descriptor from which it reads the seccomp filter. */
  seccompFd?: number;
  /** Bubblewrap is pid 1 of the jail and reaps orphans; the program is its child. */
  reaper?: boolean;
}

/** The command line that runs a program in this jail. When the jail's first process ends, all its processes end. */
export function bubblewrapArgs(jail: Jail, command: string[], options: BubblewrapOptions = {}): string[] {
  const { infoFd = INFO_FD, seccompFd, reaper = false } = options;
  const size = jail.tmpMb === undefined ? [] : ["--size", String(jail.tmpMb * 1024 * 1024)];
  return [
    ...isolationArgs,
    // No new user namespaces inside.
    ...(jail.nests ? [] : ["--disable-userns"]),
    ...(jail.network === "host" ? ["--share-net"] : []),
    "--die-with-parent",
    ...(reaper ? [] : ["--as-pid-1"]),
    ...["--info-fd", String(infoFd)],
    ...(seccompFd === undefined ? [] : ["--seccomp", String(seccompFd)]),
    "--clearenv",
    ...Object.entries(jail.env).flatMap(([name, value]) => ["--setenv", name, value]),
    ...["--proc", "/proc"],
    // Bubblewrap's own check covers folders only.
    ...readOnlyProc
      .map((name) => `/proc/${name}`)
      .filter((path) => existsSync(path))
      .flatMap((path) => ["--ro-bind", path, path]),
    ...coveredProc.flatMap(coverArgs),
    ...["--dev", "/dev"],
    ...[...size, "--tmpfs", "/dev/shm"],
    ...["--remount-ro", "/dev"],
    ...[...size, "--tmpfs", "/tmp"],
    ...(jail.symlinks ?? []).flatMap(({ at, to }) => ["--symlink", to, at]),
    ...orderedMounts(jail).flatMap(mountArgs),
    ...(jail.hidden ?? []).flatMap((at) => ["--remount-ro", at]),
    // The root is a tmpfs without a size limit.
    ...["--remount-ro", "/"],
    ...["--chdir", jail.workingDir],
    "--",
    ...command,
  ];
}

function mountArgs(mount: OrderedMount): string[] {
  if (mount.kind === "hidden") return ["--tmpfs", mount.at];
  return [mount.kind === "readOnly" ? "--ro-bind" : "--bind", mount.from, mount.at];
}

function coverArgs(name: string): string[] {
  const path = `/proc/${name}`;
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return [];
  return found.isDirectory() ? ["--tmpfs", path, "--remount-ro", path] : ["--ro-bind", "/dev/null", path];
}

/** Parses what bubblewrap reports on `INFO_FD`. */
export function childPid(info: string): number | undefined {
  const pid = /"child-pid":\s*(\d+)/.exec(info)?.[1];
  return pid === undefined ? undefined : Number(pid);
}
