import { execFile } from "node:child_process";
import { mkdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** The cgroup controllers used. */
export const controllers = ["memory", "pids", "cpu"] as const;
export type Controller = (typeof controllers)[number];

/** A folder in which groups for sessions can be created, and the controllers available there. */
export interface Hierarchy {
  version: 1 | 2;
  folder: string;
  controllers: Controller[];
}

/** Access to the machine's cgroups; replaced in tests. */
export interface CgroupMachine {
  mountInfo: string;
  ownGroups: string;
  pid: number;
  /** Creates a group. The kernel creates the files in it. */
  makeGroup(folder: string): Promise<void>;
  /** Writes to an existing file of a group. */
  write(file: string, value: string): Promise<void>;
  /** Whether a process of this user can enter a group through this file. */
  canJoin(procsFile: string): Promise<boolean>;
}

/**
 * The parent group of all sessions, next to this process: it gets one CPU share, whatever their number. Per user,
 * because other users could not create groups in it.
 */
const PARENT_GROUP = `cellwright-${process.getuid?.() ?? 0}`;
const SERVER_GROUP = "cellwright-server";

export async function thisMachine(): Promise<CgroupMachine> {
  return {
    mountInfo: await readFile("/proc/self/mountinfo", "utf8").catch(() => ""),
    ownGroups: await readFile("/proc/self/cgroup", "utf8").catch(() => ""),
    pid: process.pid,
    makeGroup: async (folder) => {
      await mkdir(folder).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "EEXIST") throw error;
      });
    },
    write: (file, value) => writeFile(file, value, { flag: "r+" }),
    canJoin: (procsFile) => succeeds(run("/bin/sh", ["-c", 'echo 0 > "$1"', "sh", procsFile])),
  };
}

/** The hierarchies that this user may use, of either cgroup version. Each controller is in one of them at most. */
export async function findHierarchies(machine: CgroupMachine): Promise<Hierarchy[]> {
  const found: Hierarchy[] = [];
  for (const mount of cgroupMounts(machine.mountInfo)) {
    const own = ownFolder(mount, machine.ownGroups);
    if (own === undefined) continue;
    const missing = controllers.filter((name) => !found.some((hierarchy) => hierarchy.controllers.includes(name)));
    const hierarchy =
      mount.version === 2
        ? await openVersion2(own, mount, missing, machine)
        : await openVersion1(own, mount, missing, machine);
    if (hierarchy && (await isUsable(hierarchy.folder, machine))) found.push(hierarchy);
  }
  return found;
}

/** A group whose folder is writable may still refuse processes. */
async function isUsable(folder: string, machine: CgroupMachine): Promise<boolean> {
  const trial = join(folder, `trial-${machine.pid}`);
  if (!(await succeeds(machine.makeGroup(trial)))) return false;
  const usable = await machine.canJoin(join(trial, "cgroup.procs"));
  await succeeds(rmdir(trial));
  return usable;
}

interface CgroupMount {
  version: 1 | 2;
  /** The group at the mount point. */
  root: string;
  point: string;
  /** Version 1: the controllers mounted there. */
  controllers: string[];
}

function cgroupMounts(mountInfo: string): CgroupMount[] {
  return mountInfo.split("\n").flatMap((line): CgroupMount[] => {
    const [head = "", tail = ""] = line.split(" - ");
    const [, , , root = "", point = ""] = head.split(" ");
    const [kind, , options = ""] = tail.split(" ");
    if (kind === "cgroup2") return [{ version: 2, root, point, controllers: [] }];
    return kind === "cgroup" ? [{ version: 1, root, point, controllers: options.split(",") }] : [];
  });
}

/** The group of this process, as a folder. */
function ownFolder(mount: CgroupMount, ownGroups: string): string | undefined {
  for (const line of ownGroups.split("\n")) {
    const [, names = "", ...path] = line.split(":");
    const isIt = mount.version === 2 ? names === "" : names.split(",").some((name) => mount.controllers.includes(name));
    const group = path.join(":");
    if (!isIt || !group) continue;
    // In a container the mount may start at the container's group, or not include it.
    if (mount.root === "/") return join(mount.point, group);
    return group === mount.root || group.startsWith(`${mount.root}/`)
      ? join(mount.point, group.slice(mount.root.length))
      : undefined;
  }
  return undefined;
}

async function openVersion1(
  own: string,
  mount: CgroupMount,
  wanted: Controller[],
  machine: CgroupMachine,
): Promise<Hierarchy | undefined> {
  const here = wanted.filter((name) => mount.controllers.includes(name));
  const folder = join(own, PARENT_GROUP);
  if (here.length === 0 || !(await succeeds(machine.makeGroup(folder)))) return undefined;
  return { version: 1, folder, controllers: here };
}

/**
 * In version 2 a group contains either processes or limited subgroups. So the sessions' group is created next to this
 * process's, in the nearest usable ancestor, unless this process is alone in its group and can move to a subgroup.
 */
async function openVersion2(
  own: string,
  mount: CgroupMount,
  wanted: Controller[],
  machine: CgroupMachine,
): Promise<Hierarchy | undefined> {
  const alone = (await readText(join(own, "cgroup.procs"))).trim() === String(machine.pid);
  if (alone && (await succeeds(machine.makeGroup(join(own, SERVER_GROUP))))) {
    await succeeds(machine.write(join(own, SERVER_GROUP, "cgroup.procs"), String(machine.pid)));
  }
  for (let parent = own; ; parent = dirname(parent)) {
    const folder = join(parent, PARENT_GROUP);
    const here: Controller[] = [];
    for (const name of wanted) if (await enable(parent, name, machine)) here.push(name);
    if (here.length > 0 && (await succeeds(machine.makeGroup(folder)))) {
      const usable: Controller[] = [];
      for (const name of here) if (await enable(folder, name, machine)) usable.push(name);
      if (usable.length > 0) return { version: 2, folder, controllers: usable };
    }
    if (parent === mount.point || parent === dirname(parent)) return undefined;
  }
}

async function enable(folder: string, controller: Controller, machine: CgroupMachine): Promise<boolean> {
  const file = join(folder, "cgroup.subtree_control");
  await succeeds(machine.write(file, `+${controller}`));
  return (await readText(file)).split(/\s+/).includes(controller);
}

export async function readText(file: string): Promise<string> {
  return readFile(file, "utf8").catch(() => "");
}

export async function succeeds(attempt: Promise<unknown>): Promise<boolean> {
  return attempt.then(
    () => true,
    () => false,
  );
}
