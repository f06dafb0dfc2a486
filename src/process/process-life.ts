import { execFile } from "node:child_process";
import { readFile, readlink } from "node:fs/promises";
import { promisify } from "node:util";

/** Identifies a process uniquely: a reused pid has another start time. */
export interface ProcessId {
  pid: number;
  /** From `startTimeOf`; absent where the system does not report it. */
  start?: string | undefined;
}

export async function processId(pid: number): Promise<ProcessId> {
  return { pid, start: await startTimeOf(pid) };
}

/** A process's start time, in a system-specific format. It tells a process from a later one with the same pid. */
export async function startTimeOf(pid: number): Promise<string | undefined> {
  if (process.platform === "linux") return startTimeOnLinux(pid);
  if (process.platform === "win32") return undefined;
  const { stdout } = await promisify(execFile)("ps", ["-o", "lstart=", "-p", String(pid)]).catch(() => ({
    stdout: "",
  }));
  return stdout.trim() || undefined;
}

/** Whether the process with this pid and start time is still alive. If the system does not say, true. */
export async function isAlive(pid: number, start: string | undefined): Promise<boolean> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
  }
  if (start === undefined) return true;
  const now = await startTimeOf(pid);
  return process.platform === "linux" ? now === start : now === undefined || now === start;
}

/**
 * Identifies the boot and, on Linux, the pid namespace (container) in which pids are valid. Processes of another one
 * cannot be looked up.
 */
export async function pidNamespace(): Promise<string | undefined> {
  if (process.platform !== "linux") return undefined;
  const [boot, container] = await Promise.all([
    readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => ""),
    readlink("/proc/self/ns/pid").catch(() => ""),
  ]);
  return `${boot.trim()} ${container}`;
}

async function startTimeOnLinux(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The second field is the program's name, which may contain spaces and brackets; the state follows it.
  const [state, ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const isDead = state === "Z" || state === "X";
  return isDead ? undefined : fields[18];
}
