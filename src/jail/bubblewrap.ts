import { execFile } from "node:child_process";
import { existsSync, lstatSync } from "node:fs";
import { promisify } from "node:util";
import type { Jail } from "./jail.ts";

const run = promisify(execFile);

/** Where bubblewrap writes who its child is, unless said: the first descriptor after stderr. */
export const INFO_FD = 3;

/** Where it reads the filter of system calls from, if there is one and it is not said otherwise. */
export const SECCOMP_FD = 4;

/** Longest that starting `true` in a jail may take; a hanging bubblewrap is one that does not work. */
const PROBE_TIMEOUT_MS = 10_000;

/** Whatever the server's user is: its files belong to this one inside. */
const UID = "1000";

const walls = [
  // User, process, network, IPC, host name and cgroup namespaces; and none to be made inside.
  "--unshare-all",
  "--unshare-user",
  "--disable-userns",
  "--uid",
  UID,
  "--gid",
  UID,
  "--hostname",
  "cellwright",
  "--cap-drop",
  "ALL",
  "--new-session",
];

/** What of /proc speaks of the machine instead of its processes. A root without capabilities could still read some of it. */
const coveredProc = [
  ...["acpi", "asound", "fs", "iomem", "kallsyms", "kcore", "keys", "kmsg", "kpagecgroup", "kpagecount", "kpageflags"],
  ...["latency_stats", "pagetypeinfo", "pressure", "sched_debug", "scsi", "slabinfo", "timer_list", "vmallocinfo"],
];

/** What of it can change the machine: a root without capabilities could, and bubblewrap itself only looks at folders. */
const readOnlyProc = ["sys", "sysrq-trigger", "irq", "bus", "mtrr"].map((name) => `/proc/${name}`);

export interface BubblewrapOptions {
  /** The descriptor on which it says the pid that its child has outside. */
  infoFd?: number;
  /** The descriptor from which it reads the filter of seccomp.ts. */
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
    ...(jail.network === "host" ? ["--share-net"] : []),
    "--die-with-parent",
    ...(reaper ? [] : ["--as-pid-1"]),
    ...["--info-fd", String(infoFd)],
    ...(seccompFd === undefined ? [] : ["--seccomp", String(seccompFd)]),
    "--clearenv",
    ...Object.entries(jail.env).flatMap(([name, value]) => ["--setenv", name, value]),
    ...["--proc", "/proc"],
    ...readOnlyProc.filter((path) => existsSync(path)).flatMap((path) => ["--ro-bind", path, path]),
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

/** Why bubblewrap cannot be used here, or nothing when it can. */
export async function probeBubblewrap(): Promise<string | undefined> {
  if (process.platform !== "linux") return `bubblewrap needs Linux, and this is ${process.platform}`;
  try {
    const probe = [
      ...walls,
      "--ro-bind",
      "/",
      "/",
      "--proc",
      "/proc",
      "--dev",
      "/dev",
      "--tmpfs",
      "/tmp",
      "--",
      "true",
    ];
    await run("bwrap", probe, { timeout: PROBE_TIMEOUT_MS });
    return undefined;
  } catch (error) {
    const { code, stderr, message } = error as { code?: unknown; stderr?: string; message: string };
    if (code === "ENOENT") return "bubblewrap (`bwrap`) is not installed";
    return `bubblewrap does not work here: ${stderr?.trim().split("\n").at(-1) || message}`;
  }
}
