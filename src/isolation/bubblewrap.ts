import { existsSync, lstatSync } from "node:fs";
import type { Jail } from "./jail.ts";
import { type OrderedMount, orderedMounts } from "./mounts/ordered.ts";
import { coveredProc, HOST_NAME, readOnlyProc, UID } from "./policy.ts";

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

export interface BubblewrapFds {
  /** The descriptor on which it reports its child's pid, as seen from the host. */
  infoFd: number;
  /** The descriptor from which it reads the seccomp filter. */
  seccompFd: number;
}

/**
 * The options for this jail. Bubblewrap is its pid 1 and reaps orphans, the program is its child; when the program
 * ends, all processes end.
 */
export function bubblewrapArgs(jail: Jail, { infoFd, seccompFd }: BubblewrapFds): string[] {
  const size = jail.tmpMb === undefined ? [] : ["--size", String(jail.tmpMb * 1024 * 1024)];
  return [
    ...isolationArgs,
    // No new user namespaces inside.
    ...(jail.nests ? [] : ["--disable-userns"]),
    ...(jail.network === "host" ? ["--share-net"] : []),
    "--die-with-parent",
    ...["--info-fd", String(infoFd)],
    ...["--seccomp", String(seccompFd)],
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

/** Parses what bubblewrap, or launch.py, reports on the info descriptor. */
export function childPid(info: string): number | undefined {
  const pid = /"child-pid":\s*(\d+)/.exec(info)?.[1];
  return pid === undefined ? undefined : Number(pid);
}
