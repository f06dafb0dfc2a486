import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { basename } from "node:path";

/**
 * Processes on Linux that use a folder: it is in their command, they have a file of it open, or their jail mounts
 * something in it. This includes a server, its zygotes and their kernels. The folder's name has to be unique: mounts are
 * listed by their path in a file system, which differs where /tmp is a mount.
 */
export function processesOf(folder: string): number[] {
  const name = basename(folder);
  return readdirSync("/proc")
    .filter((pid) => /^\d+$/.test(pid) && Number(pid) !== process.pid)
    .filter((pid) => traces(pid).some((trace) => trace.includes(name)))
    .map(Number);
}

function traces(pid: string): string[] {
  const all = [
    () => readFileSync(`/proc/${pid}/cmdline`, "utf8"),
    () => readFileSync(`/proc/${pid}/mountinfo`, "utf8"),
  ];
  const fds = orNothing(() => readdirSync(`/proc/${pid}/fd`)) ?? [];
  const files = fds.map((fd) => () => readlinkSync(`/proc/${pid}/fd/${fd}`));
  return [...all, ...files].flatMap((read) => orNothing(read) ?? []);
}

/** It may end meanwhile. */
function orNothing<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
