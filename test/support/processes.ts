import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/**
 * Processes on Linux that have to do with a folder: it is in their command, they have a file of it open, or their jail
 * shows them something in it. So a server, its zygotes and the kernels that these forked.
 */
export function processesOf(folder: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => traces(pid).some((trace) => trace.includes(folder)))
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

/** It may end while we look. */
function orNothing<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
