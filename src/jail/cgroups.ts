import { execFile } from "node:child_process";
import { mkdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** What a session is limited in. */
export const controllers = ["memory", "pids", "cpu"] as const;
export type Controller = (typeof controllers)[number];

/** A folder in which groups for sessions can be made, and what they are limited in there. */
export interface Hierarchy {
  version: 1 | 2;
  folder: string;
  controllers: Controller[];
}

/** What the machine says of its cgroups; another in tests. */
export interface CgroupMachine {
  mountInfo: string;
  ownGroups: string;
  pid: number;
  /** Makes a group. In a real file system of cgroups the files in it come by themselves. */
  makeGroup(folder: string): Promise<void>;
  /** Writes to a file of a group. It is there: none is ever made. */
  write(file: string, value: string): Promise<void>;
  /** Whether a process of this user can step into a group by this file. */
  canJoin(procsFile: string): Promise<boolean>;
}

/**
 * The group, next to this process, in which all groups of sessions are: it gets one share, whatever their number. Not
 * shared with other users, who could not make groups in it.
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

/** The hierarchies that this user may use, of either version: each controller is in one of them, or in none. */
export async function findHierarchies(machine: CgroupMachine): Promise<Hierarchy[]> {
  const found: Hierarchy[] = [];
  for (const mount of cgroupMounts(machine.mountInfo)) {
    const own = ownFolder(mount, machine.ownGroups);
    if (own === undefined) continue;
    const missing = controllers.filter((name) => !found.some((hierarchy) => hierarchy.controllers.includes(name)));
    const hierarchy =
      mount.version === 2
        ? await openSecond(own, mount, missing, machine)
        : await openFirst(own, mount, missing, machine);
    if (hierarchy && (await isUsable(hierarchy.folder, machine))) found.push(hierarchy);
  }
  return found;
}

/** A folder that can be written to is not yet a group that can be entered. */
async function isUsable(folder: string, machine: CgroupMachine): Promise<boolean> {
  const trial = join(folder, `trial-${machine.pid}`);
  if (!(await succeeds(machine.makeGroup(trial)))) return false;
  const usable = await machine.canJoin(join(trial, "cgroup.procs"));
  await succeeds(rmdir(trial));
  return usable;
}

interface CgroupMount {
  version: 1 | 2;
  /** The group that is seen at the mount point. */
  root: string;
  point: string;
  /** Version 1: what is mounted there. */
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
    // In a container the mount may begin at its own group, and the group may be outside of what is mounted.
    if (mount.root === "/") return join(mount.point, group);
    return group === mount.root || group.startsWith(`${mount.root}/`)
      ? join(mount.point, group.slice(mount.root.length))
      : undefined;
  }
  return undefined;
}

async function openFirst(
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
 * In version 2 a group has processes or limited groups below it, not both. So a group beside ours is made, in the nearest
 * folder above that this user may use, unless this process is alone in its group and can step aside.
 */
async function openSecond(
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
