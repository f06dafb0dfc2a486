import { readdir, rmdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../log.ts";
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
import { explainExit, type ProcessExit, withinJail } from "./exit.ts";
import type { Limits } from "./jail.ts";

export { fromWaitStatus, type ProcessExit } from "./exit.ts";

/** What `host/limits.py` and `spawnJailed` set for a new process. Plain JSON. */
export interface ProcessLimits {
  /** Files into which the process writes `0`, before it enters a jail, to be counted with its session. */
  procsFiles: string[];
  /**
   * Writable memory of its own, beyond what the process has when the limit is set: a MemoryError instead of death.
   * Addresses that are only reserved do not count, so that Node.js, Java and threads work.
   */
  dataMb?: number;
  /** All addresses beyond those at that time, where no cgroup limits memory: memory that is shared counts, too. */
  addressSpaceMb?: number;
  fileSizeMb: number;
  processes: number;
  openFiles: number;
}

export interface SessionLimits {
  forProcess: ProcessLimits;
  /** What could not be limited here, as sentences. */
  notes: string[];
  /** Whether the sum of the session's memory is limited by the system; otherwise `watchUse` has to. */
  limitsMemory: boolean;
  /** Why a kernel of this session ended, as a sentence. */
  causeOfDeath(exit: ProcessExit): Promise<string>;
  /** Pids of the session's processes as seen from here; empty where there is no cgroup. */
  processes(): Promise<number[]>;
  /** Ends all processes of the session that a cgroup knows of. */
  killAll(): Promise<void>;
  /** Forgets the session once all its kernels did; what a cgroup still has in it is killed. */
  dispose(): Promise<void>;
}

export interface LimitSetter {
  /** One short phrase for each: `memory: cgroup v1`. */
  readonly means: string[];
  /** Kernels of one session share one set of limits; each call is answered by its own `dispose`. */
  for(sessionId: string, limits: Limits): Promise<SessionLimits>;
}

/** What an interpreter takes before it has done anything; so that code alone meets its limit as an exception first. */
const OWN_MEMORY_MB = 256;
/** Supervisor, reaper, forwarder, and the shells that start things. */
const OWN_PROCESSES = 8;
/** More than a program needs, and few enough for a session that takes all it can. */
const OPEN_FILES = 4096;
const CPU_PERIOD_US = 100_000;
/** A killed process takes a moment to leave its group. */
const LEAVING_TRIES = 40;
const LEAVING_PAUSE_MS = 50;
/** Groups that a server left behind when it was killed: without processes, and too old for a kernel that just starts. */
const LEFT_BEHIND_MS = 3_600_000;

/** Finds out how this machine can limit sessions: by cgroups of either version, each controller apart, or by rlimits. */
export async function openLimits(log: Log, given?: CgroupMachine): Promise<LimitSetter> {
  const machine = given ?? (await thisMachine());
  const hierarchies = process.platform === "linux" || given ? await findHierarchies(machine) : [];
  const users = new Map<string, number>();
  const removals = new Map<string, Promise<void>>();
  const means = controllers.map((name) => `${name}: ${meansOf(name, hierarchies)}`);
  log.debug(`limits: ${means.join(", ")}`);
  for (const { folder } of hierarchies) await removeLeftBehind(folder);

  return {
    means,
    async for(sessionId, limits) {
      const name = encodeURIComponent(sessionId);
      // A session that is reset has its next kernel while the groups of the former one are emptied and removed.
      await removals.get(name);
      users.set(name, (users.get(name) ?? 0) + 1);
      const groups: Group[] = [];
      for (const hierarchy of hierarchies) {
        const folder = join(hierarchy.folder, name);
        if (!(await succeeds(machine.makeGroup(folder)))) {
          log.warn(`the cgroup ${folder} could not be made`);
          continue;
        }
        const set = await setLimits(folder, hierarchy, limits, machine);
        groups.push({ ...hierarchy, folder, controllers: set });
      }
      const limited = (controller: Controller) => groups.some((group) => group.controllers.includes(controller));
      return new CgroupLimits(groups, limits, {
        limited,
        release: async (remove) => {
          const left = (users.get(name) ?? 1) - 1;
          users.set(name, left);
          if (left > 0) return;
          users.delete(name);
          const removal = remove().finally(() => removals.delete(name));
          removals.set(name, removal);
          await removal;
        },
        log,
        killsSoFar: await oomKills(groups),
      });
    },
  };
}

type Group = Hierarchy;

/** One kernel less; `remove` is called for the session's last. */
type Release = (remove: () => Promise<void>) => Promise<void>;

class CgroupLimits implements SessionLimits {
  readonly forProcess: ProcessLimits;
  readonly notes: string[];
  readonly limitsMemory: boolean;
  readonly #groups: Group[];
  readonly #limits: Limits;
  readonly #release: Release;
  readonly #log: Log;
  #killsSoFar: number;
  #disposed = false;

  constructor(
    groups: Group[],
    limits: Limits,
    parts: { limited: (name: Controller) => boolean; release: Release; log: Log; killsSoFar: number },
  ) {
    this.#groups = groups;
    this.#limits = limits;
    this.#release = parts.release;
    this.#log = parts.log;
    this.#killsSoFar = parts.killsSoFar;
    this.limitsMemory = parts.limited("memory");
    this.notes = notesOn(limits, parts.limited);
    this.forProcess = {
      procsFiles: groups.map(({ folder }) => join(folder, "cgroup.procs")),
      dataMb: limits.memoryMb,
      ...(this.limitsMemory ? {} : { addressSpaceMb: limits.memoryMb }),
      fileSizeMb: limits.diskMb,
      processes: limits.pids,
      openFiles: OPEN_FILES,
    };
  }

  async causeOfDeath(exit: ProcessExit): Promise<string> {
    const kills = await oomKills(this.#groups);
    const ranOut = kills > this.#killsSoFar && withinJail(exit).signal === "SIGKILL";
    this.#killsSoFar = kills;
    return explainExit(exit, ranOut ? { limitMb: this.#limits.memoryMb } : undefined);
  }

  async processes(): Promise<number[]> {
    const lists = await Promise.all(this.#groups.map(({ folder }) => readText(join(folder, "cgroup.procs"))));
    const pids = lists.flatMap((list) => list.split("\n").filter(Boolean).map(Number));
    // 0 is one that this process cannot see.
    return [...new Set(pids)].filter((pid) => pid > 0 && pid !== process.pid);
  }

  async killAll(): Promise<void> {
    for (let tries = 0; tries < LEAVING_TRIES; tries += 1) {
      const pids = await this.processes();
      if (pids.length === 0) return;
      for (const pid of pids) kill(pid);
      await pause(LEAVING_PAUSE_MS);
    }
  }

  async dispose(): Promise<void> {
    if (this.#disposed) return;
    this.#disposed = true;
    await this.#release(() => this.#remove());
  }

  async #remove(): Promise<void> {
    await this.killAll();
    for (const { folder } of this.#groups) {
      let removed = false;
      for (let tries = 0; !removed && tries < LEAVING_TRIES; tries += 1) {
        if (tries > 0) await pause(LEAVING_PAUSE_MS);
        removed = await rmdir(folder).then(
          () => true,
          (error: NodeJS.ErrnoException) => error.code === "ENOENT",
        );
      }
      if (!removed) this.#log.warn(`the cgroup ${folder} could not be removed`);
    }
  }
}

/** Returns what could be limited. */
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

/** Those that are optional are not there on every machine. */
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

/** How many processes the system has killed in these groups for want of memory. */
async function oomKills(groups: Group[]): Promise<number> {
  const memory = groups.find((group) => group.controllers.includes("memory"));
  if (!memory) return 0;
  const file = memory.version === 2 ? "memory.events" : "memory.oom_control";
  return Number(/^oom_kill (\d+)/m.exec(await readText(join(memory.folder, file)))?.[1] ?? 0);
}

function meansOf(name: Controller, hierarchies: Hierarchy[]): string {
  const found = hierarchies.find((hierarchy) => hierarchy.controllers.includes(name));
  if (found) return `cgroup v${found.version}`;
  if (name === "cpu") return "none";
  if (name === "memory") return "rlimit for each process, and a look at the sum";
  return process.getuid?.() === 0 ? "none" : "rlimit";
}

function notesOn(limits: Limits, limited: (name: Controller) => boolean): string[] {
  const notes: string[] = [];
  if (!limited("memory")) {
    notes.push(
      "Memory is limited for each process alone, and the sum is only looked at: no memory cgroup can be used.",
    );
  }
  if (!limited("pids") && process.getuid?.() === 0) {
    notes.push(
      "The number of processes is not limited: no pids cgroup can be used, and root is above the other limit.",
    );
  }
  if (!limited("cpu") && limits.cpus !== undefined) {
    notes.push("Processors are not limited: no cpu cgroup can be used.");
  }
  return notes;
}

async function removeLeftBehind(folder: string): Promise<void> {
  const names = await readdir(folder, { withFileTypes: true }).catch(() => []);
  for (const entry of names.filter((each) => each.isDirectory())) {
    const group = join(folder, entry.name);
    const made = await stat(group).catch(() => undefined);
    // One with processes in it cannot be removed.
    if (made && Date.now() - made.mtimeMs > LEFT_BEHIND_MS) await succeeds(rmdir(group));
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It is gone.
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
