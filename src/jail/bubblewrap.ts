import { existsSync, lstatSync } from "node:fs";
import type { Jail } from "./jail.ts";
import { coveredProc, HOST_NAME, readOnlyProc, UID } from "./policy.ts";

/** Where bubblewrap writes who its child is, unless said: the first descriptor after stderr. */
export const INFO_FD = 3;

/** Where it reads the filter of system calls from, if there is one and it is not said otherwise. */
export const SECCOMP_FD = 4;

const walls = [
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
  /** The descriptor on which it says the pid that its child has outside. */
  infoFd?: number;
  /** The descriptor from which it reads the filter of system calls. */
  seccompFd?: number;
  /** Whether the program is the jail's second process, and bubblewrap the first, which reaps what nobody waits for. */
  reaper?: boolean;
}

/** The command line that runs a program in this jail. When the jail's first process ends, so do all others in there. */
export function bubblewrapArgs(jail: Jail, command: string[], options: BubblewrapOptions = {}): string[] {
  const { infoFd = INFO_FD, seccompFd, reaper = false } = options;
  const size = jail.tmpMb === undefined ? [] : ["--size", String(jail.tmpMb * 1024 * 1024)];
  return [
    ...walls,
    // None to be made inside.
    ...(jail.nests ? [] : ["--disable-userns"]),
    ...(jail.network === "host" ? ["--share-net"] : []),
    "--die-with-parent",
    ...(reaper ? [] : ["--as-pid-1"]),
    ...["--info-fd", String(infoFd)],
    ...(seccompFd === undefined ? [] : ["--seccomp", String(seccompFd)]),
    "--clearenv",
    ...Object.entries(jail.env).flatMap(([name, value]) => ["--setenv", name, value]),
    ...["--proc", "/proc"],
    // Bubblewrap itself only looks at folders.
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
    ...orderedMounts(jail).flatMap(({ args }) => args),
    ...(jail.hidden ?? []).flatMap((at) => ["--remount-ro", at]),
    // Bubblewrap's own root is in memory and without a limit.
    ...["--remount-ro", "/"],
    ...["--chdir", jail.workingDir],
    "--",
    ...command,
  ];
}

/** Outer ones first, so that what lies deeper is not covered; as host/jail.py orders them. */
function orderedMounts(jail: Jail): { at: string; args: string[] }[] {
  const mounts = [
    ...(jail.hidden ?? []).map((at) => ({ at, args: ["--tmpfs", at] })),
    ...jail.readOnly.map(({ from, at }) => ({ at, args: ["--ro-bind", from, at] })),
    ...jail.readWrite.map(({ from, at }) => ({ at, args: ["--bind", from, at] })),
  ];
  return mounts.sort((a, b) => depth(a.at) - depth(b.at));
}

function depth(path: string): number {
  return path.split("/").filter(Boolean).length;
}

function coverArgs(name: string): string[] {
  const path = `/proc/${name}`;
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return [];
  return found.isDirectory() ? ["--tmpfs", path, "--remount-ro", path] : ["--ro-bind", "/dev/null", path];
}

/** What bubblewrap said on `INFO_FD`. */
export function childPid(info: string): number | undefined {
  const pid = /"child-pid":\s*(\d+)/.exec(info)?.[1];
  return pid === undefined ? undefined : Number(pid);
}
