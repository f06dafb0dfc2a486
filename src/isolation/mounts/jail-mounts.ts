import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { idOf } from "../protected/placeholders.ts";

/** The mounts of another mount namespace, as its processes see them. */
export interface NamespaceMounts {
  /** One of its processes. */
  pid: number;
  points: Set<string>;
  /** Device and inode of a path there. */
  idAt(point: string): string | undefined;
}

/** Every other mount namespace that this process may inspect, including those of our jails. */
export function* otherNamespaces(): Generator<NamespaceMounts> {
  if (process.platform !== "linux") return;
  const seen = new Set([attempt(() => readlinkSync("/proc/self/ns/mnt"))]);
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    const namespace = attempt(() => readlinkSync(`/proc/${pid}/ns/mnt`));
    if (namespace === undefined || seen.has(namespace)) continue;
    const mounts = attempt(() => readFileSync(`/proc/${pid}/mountinfo`, "utf8"));
    if (mounts === undefined) continue;
    seen.add(namespace);
    const idAt = (point: string) => attempt(() => idOf(`/proc/${pid}/root${point}`));
    yield { pid: Number(pid), points: new Set(mountPoints(mounts)), idAt };
  }
}

/** The kernel escapes spaces, tabs, line ends and backslashes as octal numbers. */
function mountPoints(mountinfo: string): string[] {
  return mountinfo.split("\n").flatMap((line) => {
    const point = line.split(" ")[4];
    if (point === undefined) return [];
    return [point.replace(/\\(\d{3})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 8)))];
  });
}

/** Processes may end meanwhile, and some may not be inspected. */
function attempt<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}
