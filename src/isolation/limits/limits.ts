import { readdir, rmdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Log } from "../../log.ts";
import { kill } from "../../process/kill.ts";
import { decodeSignalExit, explainExit, type ProcessExit } from "../exit.ts";
import type { Limits } from "../jail.ts";
import {
  type CgroupMachine,
  type Controller,
  controllers,
  findHierarchies,
  type Hierarchy,
  readText,
  succeeds,
  thisMachine,
} from "./cgroups.ts";

/** Limits that `python/limits.py` and `spawnJailed` set for a new process. Plain JSON. */
export interface ProcessLimits {
  /** Files into which the process writes `0` before it enters a jail, to join its session's cgroups. */
  procsFiles: string[];
  /**
   * Private writable memory on top of the current use (RLIMIT_DATA): a MemoryError instead of an OOM kill. Reserved
   * address space does not count, so that Node.js, Java and threads work.
   */
  dataMb?: number;
  /** Address space on top of the current use, where no cgroup limits memory: includes shared memory. */
  addressSpaceMb?: number;
  fileSizeMb: number;
  processes: number;
  openFiles: number;
}

export interface LimitSetter {
  /** How each resource is limited, as a short phrase: `memory: cgroup v1`. */
  readonly mechanisms: string[];
  /** Kernels of one session share its limits; each call needs its own `dispose`. */
  for(sessionId: string, limits: Limits): Promise<SessionLimits>;
}

/** Memory of an idle interpreter, on top of the limit: code then gets a MemoryError before the OOM killer acts. */
const OWN_MEMORY_MB = 256;
/** Supervisor, reaper, forwarder, and the shells that start them. */
const OWN_PROCESSES = 8;
/** More than a program needs; a session that opens this many does no harm. */
const OPEN_FILES = 4096;
const CPU_PERIOD_US = 100_000;
/** A killed process takes a moment to leave its group. */
const EXIT_POLLS = 40;
const EXIT_POLL_MS = 50;
/** Age after which an empty group is an orphan of a killed server, and not one of a kernel that is starting. */
const ORPHAN_AGE_MS = 3_600_000;

/** Detects how this machine can limit sessions, per controller: cgroup v1 or v2, else rlimits. */
export async function openLimits(log: Log, given?: CgroupMachine): Promise<LimitSetter> {
  const machine = given ?? (await thisMachine());
  const hierarchies = process.platform === "linux" || given ? await findHierarchies(machine) : [];
  const users = new Map<string, number>();
  const removals = new Map<string, Promise<void>>();
  const mechanisms = controllers.map((name) => `${name}: ${mechanismOf(name, hierarchies)}`);
  log.debug(`limits: ${mechanisms.join(", ")}`);
  for (const { folder } of hierarchies) await removeOrphanedGroups(folder);

  return {
    mechanisms,
    async for(sessionId, limits) {
      const name = encodeURIComponent(sessionId);
      // After a reset the next kernel may start while the previous one's groups are still being removed.
      await removals.get(name);
      users.set(name, (users.get(name) ?? 0) + 1);
      const groups: Hierarchy[] = [];
      for (const hierarchy of hierarchies) {
        const folder = join(hierarchy.folder, name);
        if (!(await succeeds(machine.makeGroup(folder)))) {
          log.warn(`cannot create the cgroup ${folder}`);
          continue;
        }
        const set = await setLimits(folder, hierarchy, limits, machine);
        groups.push({ ...hierarchy, folder, controllers: set });
      }
      const release = async () => {
        const left = (users.get(name) ?? 1) - 1;
        users.set(name, left);
        if (left > 0) return;
        users.delete(name);
        const removal = removeGroups(groups, log).finally(() => removals.delete(name));
        removals.set(name, removal);
        await removal;
      };
      return new SessionLimits(groups, limits, { release, killsSoFar: await oomKills(groups) });
    },
  };
}

/** The limits of one kernel, and the cgroups of its session, which enforce some of them. */
export class SessionLimits {
  readonly forProcess: ProcessLimits;
  /** What could not be limited here, as sentences. */
  readonly notes: string[];
  /** Whether a cgroup limits the session's total memory; otherwise `watchUse` has to. */
  readonly limitsMemory: boolean;
  readonly #groups: Hierarchy[];
  readonly #limits: Limits;
  readonly #release: () => Promise<void>;
  #killsSoFar: number;
  #disposed = false;

  constructor(
    groups: Hierarchy[],
    limits: Limits,
    { release, killsSoFar }: { release: () => Promise<void>; killsSoFar: number },
  ) {
    const limited = (name: Controller) => groups.some((group) => group.controllers.includes(name));
    this.#groups = groups;
    this.#limits = limits;
    this.#release = release;
    this.#killsSoFar = killsSoFar;
    this.limitsMemory = limited("memory");
    this.notes = notesOn(limits, limited);
    this.forProcess = {
      procsFiles: groups.map(({ folder }) => join(folder, "cgroup.procs")),
      dataMb: limits.memoryMb,
      ...(this.limitsMemory ? {} : { addressSpaceMb: limits.memoryMb }),
      fileSizeMb: limits.diskMb,
      processes: limits.pids,
      openFiles: OPEN_FILES,
    };
  }

  /** Why a kernel of this session ended, as a sentence. */
  async causeOfDeath(exit: ProcessExit): Promise<string> {
    const kills = await oomKills(this.#groups);
    const ranOut = kills > this.#killsSoFar && decodeSignalExit(exit).signal === "SIGKILL";
    this.#killsSoFar = kills;
    return explainExit(exit, ranOut ? { limitMb: this.#limits.memoryMb } : undefined);
  }

  /** Host pids of the session's processes; empty without a cgroup. */
  processes(): Promise<number[]> {
    return processesIn(this.#groups);
  }

  /** Releases the limits; after the session's last kernel, kills what is left in its cgroups and removes them. */
  async dispose(): Promise<void> {
    if (this.#disposed) return;
    this.#disposed = true;
    await this.#release();
  }
}

async function processesIn(groups: Hierarchy[]): Promise<number[]> {
  const lists = await Promise.all(groups.map(({ folder }) => readText(join(folder, "cgroup.procs"))));
  const pids = lists.flatMap((list) => list.split("\n").filter(Boolean).map(Number));
  // 0: a process outside of this pid namespace.
  return [...new Set(pids)].filter((pid) => pid > 0 && pid !== process.pid);
}

/** Kills what is left in these groups, and removes them. */
async function removeGroups(groups: Hierarchy[], log: Log): Promise<void> {
  for (let tries = 0; tries < EXIT_POLLS; tries += 1) {
    const pids = await processesIn(groups);
    if (pids.length === 0) break;
    for (const pid of pids) kill(pid);
    await pause(EXIT_POLL_MS);
  }
  for (const { folder } of groups) {
    let removed = false;
    for (let tries = 0; !removed && tries < EXIT_POLLS; tries += 1) {
      if (tries > 0) await pause(EXIT_POLL_MS);
      removed = await rmdir(folder).then(
        () => true,
        (error: NodeJS.ErrnoException) => error.code === "ENOENT",
      );
    }
    if (!removed) log.warn(`cannot remove the cgroup ${folder}`);
  }
}

/** Returns the controllers whose limits could be set. */
async function setLimits(
  folder: string,
  { version, controllers: here }: Hierarchy,
  limits: Limits,
  machine: CgroupMachine,
): Promise<Controller[]> {
  const bytes = String((limits.memoryMb + OWN_MEMORY_MB) * 1024 * 1024);
  const quota = limits.cpus === undefined ? undefined : String(Math.round(limits.cpus * CPU_PERIOD_US));
  const processes = String(limits.pids + OWN_PROCESSES);
  const set: Controller[] = [];
  for (const name of here) {
    const files = limitFiles[version][name]({ bytes, quota, processes });
    let done = true;
    for (const [file, value, isOptional] of files) {
      done = ((await succeeds(machine.write(join(folder, file), value))) || isOptional === "optional") && done;
    }
    if (done) set.push(name);
  }
  return set;
}

interface Values {
  bytes: string;
  quota: string | undefined;
  processes: string;
}

/** Optional files do not exist on every machine. */
type LimitFile = [name: string, value: string, isOptional?: "optional"];

const pidsFiles = ({ processes }: Values): LimitFile[] => [["pids.max", processes]];

const limitFiles: Record<1 | 2, Record<Controller, (values: Values) => LimitFile[]>> = {
  1: {
    memory: ({ bytes }) => [
      ["memory.limit_in_bytes", bytes],
      ["memory.memsw.limit_in_bytes", bytes, "optional"],
    ],
    pids: pidsFiles,
    cpu: ({ quota = "-1" }) => [
      ["cpu.cfs_period_us", String(CPU_PERIOD_US)],
      ["cpu.cfs_quota_us", quota],
    ],
  },
  2: {
    memory: ({ bytes }) => [
      ["memory.max", bytes],
      ["memory.swap.max", "0", "optional"],
    ],
    pids: pidsFiles,
    cpu: ({ quota = "max" }) => [["cpu.max", `${quota} ${CPU_PERIOD_US}`]],
  },
};

/** How many processes of these groups the OOM killer has killed. */
async function oomKills(groups: Hierarchy[]): Promise<number> {
  const memory = groups.find((group) => group.controllers.includes("memory"));
  if (!memory) return 0;
  const file = memory.version === 2 ? "memory.events" : "memory.oom_control";
  return Number(/^oom_kill (\d+)/m.exec(await readText(join(memory.folder, file)))?.[1] ?? 0);
}

function mechanismOf(name: Controller, hierarchies: Hierarchy[]): string {
  const found = hierarchies.find((hierarchy) => hierarchy.controllers.includes(name));
  if (found) return `cgroup v${found.version}`;
  if (name === "cpu") return "none";
  if (name === "memory") return "rlimit per process, total checked periodically";
  return process.getuid?.() === 0 ? "none" : "rlimit";
}

function notesOn(limits: Limits, limited: (name: Controller) => boolean): string[] {
  const notes: string[] = [];
  if (!limited("memory")) {
    notes.push(
      "Memory is limited per process, and the session's total is only checked periodically: no memory cgroup can be used.",
    );
  }
  if (!limited("pids") && process.getuid?.() === 0) {
    notes.push("The number of processes is not limited: no pids cgroup can be used, and rlimits do not apply to root.");
  }
  if (!limited("cpu") && limits.cpus !== undefined) {
    notes.push("CPU time is not limited: no cpu cgroup can be used.");
  }
  return notes;
}

async function removeOrphanedGroups(folder: string): Promise<void> {
  const names = await readdir(folder, { withFileTypes: true }).catch(() => []);
  for (const entry of names.filter((each) => each.isDirectory())) {
    const group = join(folder, entry.name);
    const made = await stat(group).catch(() => undefined);
    // `rmdir` fails for a group with processes.
    if (made && Date.now() - made.mtimeMs > ORPHAN_AGE_MS) await succeeds(rmdir(group));
  }
}
