import { execFile } from "node:child_process";
import { readFile, readlink } from "node:fs/promises";
import { promisify } from "node:util";

/** When a process started, in whatever form the system tells it; a number that is given out again starts later. */
export async function startOf(pid: number): Promise<string | undefined> {
  if (process.platform === "linux") return startOnLinux(pid);
  if (process.platform === "win32") return undefined;
  const { stdout } = await promisify(execFile)("ps", ["-o", "lstart=", "-p", String(pid)]).catch(() => ({
    stdout: "",
  }));
  return stdout.trim() || undefined;
}

/** Whether the process that had this number and start is still there. When the system does not tell, it is. */
export async function isAlive(pid: number, start: string | undefined): Promise<boolean> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
  }
  if (start === undefined) return true;
  const now = await startOf(pid);
  return process.platform === "linux" ? now === start : now === undefined || now === start;
}

/**
 * Where a process number means what it means here: this start of this machine and, on Linux, this container. A process
 * of another place cannot be looked for.
 */
export async function placeOfProcesses(): Promise<string | undefined> {
  if (process.platform !== "linux") return undefined;
  const [boot, container] = await Promise.all([
    readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => ""),
    readlink("/proc/self/ns/pid").catch(() => ""),
  ]);
  return `${boot.trim()} ${container}`;
}

async function startOnLinux(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The second field is the program's name and may hold spaces and brackets; the state is the first one after it.
  const [state, ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const isDead = state === "Z" || state === "X";
  return isDead ? undefined : fields[18];
}
