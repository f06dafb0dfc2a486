import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Jail } from "./jail.ts";

const run = promisify(execFile);

/** Where bubblewrap writes who its child is: the first descriptor after stderr. */
export const INFO_FD = 3;

/** Longest that starting `true` in a jail may take; a hanging bubblewrap is one that does not work. */
const PROBE_TIMEOUT_MS = 10_000;

const walls = [
  // User, process, network, IPC, host name and cgroup namespaces; and none to be made inside.
  "--unshare-all",
  "--unshare-user",
  "--disable-userns",
  "--cap-drop",
  "ALL",
  "--new-session",
  "--die-with-parent",
  // The program is the jail's first process: when it ends, the kernel ends all others in there.
  "--as-pid-1",
];

/** The command line that runs a program in this jail; the pid it has outside is written to `INFO_FD`. */
export function bubblewrapArgs(jail: Jail, command: string[]): string[] {
  return [
    ...walls,
    "--info-fd",
    String(INFO_FD),
    "--clearenv",
    ...Object.entries(jail.env).flatMap(([name, value]) => ["--setenv", name, value]),
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
    ...jail.readOnly.flatMap(({ from, at }) => ["--ro-bind", from, at]),
    ...jail.readWrite.flatMap(({ from, at }) => ["--bind", from, at]),
    "--chdir",
    jail.workingDir,
    "--",
    ...command,
  ];
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
