import { mkdtemp } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { CellwrightError } from "../errors.ts";
import type { Log } from "../log.ts";
import { removeFolder } from "../remove-folder.ts";
import { type Enclosure, enclosure } from "./enclosure.ts";
import { type FoundIsolation, findIsolation } from "./isolation.ts";
import type { Isolation, Jail, JailMode, Limits } from "./jail.ts";
import { type LimitSetter, openLimits, type ProcessExit, type ProcessLimits } from "./limits.ts";
import { type LocalJailOptions, localJail, readableRoots } from "./local-jail.ts";
import type { HeldPlaces, ObeyedPlaces } from "./obeyed-places.ts";
import { familyOf } from "./processes.ts";
import { SessionProxies } from "./session-proxies.ts";
import { type OwnFile, watchUse } from "./use-watch.ts";

export interface WallsConfig {
  jail: JailMode;
  limits: Limits;
  /** Sessions work in a folder of the user's, which code sees at its own path. */
  workspaceInPlace: boolean;
  allowRead: string[];
  allowWrite: string[];
  /** Hosts, `*` for all public ones, `host` for the network of this machine. Empty: none. */
  allowNet: string[];
  /** What code is to see of this program's environment. */
  passedEnv: Record<string, string>;
  /** Folders below what code may write that it may only read: what is in them also runs outside of jails. */
  protectedPaths?: string[] | undefined;
  /** What hosts obey below the user's folders that code may write; absent: nothing there is kept from code. */
  obeyed?: ObeyedPlaces | undefined;
  /** Where the folders of sessions lie, for what forks kernels. Absent: that is not isolated itself. */
  sessionFolders?: string[] | undefined;
  /** Never seen by code, though it may lie below something allowed. */
  hidden: string[];
  log: Log;
}

/** What one kernel has around it. */
export interface KernelWalls extends KernelLimits {
  /** Absent: it was asked for by name to have none. */
  jail: Jail | undefined;
  /** Its whole environment where there is no jail. */
  env: Record<string, string>;
  /** For people, a short phrase each. */
  phrases: string[];
}

/** How much one kernel may use. */
export interface KernelLimits {
  limits: ProcessLimits;
  /** What could not be limited, as sentences. */
  notes: string[];
  causeOfDeath(exit: ProcessExit): Promise<string>;
  /** Looks after what no system limit covers, until `dispose`. */
  watch(kernel: WatchedKernel): void;
  /** The kernel is gone. */
  dispose(): Promise<void>;
}

export interface WatchedKernel {
  /** The process that all of the kernel's are below; without it only a cgroup tells which they are. */
  pid?: number;
  /** Where it can write beside its workspace. */
  folders?: string[];
  ownFiles?: OwnFile[];
  isBusy(): boolean;
  condemn(reason: string): void;
}

/** Whose kernel it is, and its folders. */
interface Slot {
  sessionId: string;
  workspaceDir: string;
  runDir: string;
}

/** What the kernel needs to be shown; see `LocalJailOptions`. */
export type KernelNeeds = Pick<
  LocalJailOptions,
  "environmentPaths" | "python" | "supportPaths" | "socketsDir" | "overlayDir" | "env"
>;

const tierPhrases: Record<Isolation["tier"], string[]> = { namespaces: ["namespaces"], landlock: ["Landlock"] };

/** `--allow-net=host`. */
const WHOLE_NETWORK = "host";

/** The walls around processes of this machine that run user code: made alike for Python and for bash. */
export class Walls {
  readonly #config: WallsConfig;
  #limits: Promise<LimitSetter> | undefined;
  /** Where code reaches some hosts and not others. */
  readonly #proxies: SessionProxies | undefined;

  constructor(config: WallsConfig) {
    this.#config = config;
    const { allowNet: allow, jail, log } = config;
    const isFiltered = jail !== "none" && allow.length > 0 && !allow.includes(WHOLE_NETWORK);
    this.#proxies = isFiltered ? new SessionProxies({ allow, log }) : undefined;
  }

  /** False: `--jail none`. */
  get jails(): boolean {
    return this.#config.jail !== "none";
  }

  /** Why code of this machine cannot be run in a jail here, and was not allowed to be run without one. */
  async obstacle(): Promise<string | undefined> {
    if (!this.jails) return undefined;
    const found = await this.find();
    return "obstacle" in found ? found.obstacle : undefined;
  }

  /** How kernels are isolated; undefined with `--jail none`. Throws where that is not possible. */
  async isolation(): Promise<Isolation | undefined> {
    if (!this.jails) return undefined;
    const found = await this.find();
    if ("obstacle" in found) throw noJail(found.obstacle);
    return found;
  }

  /** The same, or why there is none. */
  find(): Promise<FoundIsolation> {
    return findIsolation(this.#config.jail);
  }

  async for(slot: Slot, needs: KernelNeeds): Promise<KernelWalls> {
    const isolation = await this.isolation();
    const held = await this.#hold(slot.workspaceDir, isolation);
    // Namespaces have a /tmp in memory.
    const tmpDir = isolation?.tier === "landlock" ? await mkdtemp(join(slot.runDir, "tmp-")) : undefined;
    const limits = await this.#limitsOf(slot, { held, ownFolders: tmpDir === undefined ? [] : [tmpDir] });
    const dispose = async () => {
      await limits.dispose();
      if (tmpDir) await removeFolder(tmpDir);
    };
    try {
      return {
        jail: isolation && (await this.#jail(slot, { ...needs, isolation, tmpDir }, held)),
        env: this.#openEnv(slot.runDir, needs),
        phrases: isolation ? [...tierPhrases[isolation.tier], "system call filter", this.#networkPhrase()] : [],
        ...limits,
        dispose,
      };
    } catch (error) {
      await dispose();
      throw error;
    }
  }

  /** For a process that forks kernels: what they need of the machine, and no more. Undefined: nothing is kept from it. */
  async enclosure(needs: { readable: string[]; writable: string[] }): Promise<Enclosure | undefined> {
    const isolation = await this.isolation();
    const { sessionFolders, allowRead, allowWrite, allowNet } = this.#config;
    if (!isolation || !sessionFolders) return undefined;
    return enclosure({
      isolation,
      readable: [...needs.readable, ...(await readableRoots(allowRead))],
      writable: [...needs.writable, ...sessionFolders, ...allowWrite],
      // A fork's gate makes the connections to the session's proxy.
      network: allowNet.length > 0,
    });
  }

  /** The limits and the way to the network alone, for a kernel that has its jail already. */
  async limitsOf(slot: Slot): Promise<KernelLimits> {
    const isolation = this.jails ? await this.find() : undefined;
    const held = isolation && "tier" in isolation ? await this.#hold(slot.workspaceDir, isolation) : undefined;
    return this.#limitsOf(slot, { held });
  }

  /** What hosts obey in the user's folders, for as long as this kernel lives. */
  async #hold(workspaceDir: string, isolation: Isolation | undefined): Promise<HeldPlaces | undefined> {
    const { obeyed, workspaceInPlace, allowWrite } = this.#config;
    if (!isolation || !obeyed) return undefined;
    const folders = [...(workspaceInPlace ? [workspaceDir] : []), ...allowWrite];
    if (isolation.tier === "namespaces") return obeyed.hold(folders);
    // Landlock takes the right to make them; nothing has to be there for it, and nothing can be lost.
    return { roots: obeyed.rootsOf(folders), paths: [], onLost: () => {}, release: async () => {} };
  }

  async #limitsOf(
    slot: Slot,
    { held, ownFolders = [] }: { held: HeldPlaces | undefined; ownFolders?: string[] },
  ): Promise<KernelLimits> {
    const { limits: wanted, log } = this.#config;
    const { sessionId, workspaceDir } = slot;
    this.#limits ??= openLimits(log);
    const limits = await (await this.#limits).for(sessionId, wanted);
    const network = await this.#proxies?.hold(slot).catch(async (error) => {
      await limits.dispose();
      throw error;
    });
    const watches: { stop(): void }[] = [];
    return {
      limits: limits.forProcess,
      notes: limits.notes,
      causeOfDeath: (exit) => limits.causeOfDeath(exit),
      watch: (kernel) => {
        const memoryMb = limits.limitsMemory ? undefined : wanted.memoryMb;
        const folders = [workspaceDir, ...ownFolders, ...(kernel.folders ?? [])];
        const { diskMb } = wanted;
        const processes = async () => {
          const counted = await limits.processes();
          return counted.length > 0 || kernel.pid === undefined ? counted : familyOf(kernel.pid);
        };
        watches.push(watchUse({ ...kernel, processes, folders, diskMb, memoryMb }));
        held?.onLost((reason) => kernel.condemn(reason));
      },
      dispose: async () => {
        for (const watch of watches) watch.stop();
        await network?.release();
        await limits.dispose();
        await held?.release();
      },
    };
  }

  async dispose(): Promise<void> {
    await this.#proxies?.dispose();
  }

  async #jail(
    slot: Slot,
    needs: KernelNeeds & Pick<LocalJailOptions, "isolation" | "tmpDir">,
    held: HeldPlaces | undefined,
  ): Promise<Jail> {
    const { allowRead, allowWrite, protectedPaths, hidden, workspaceInPlace, passedEnv } = this.#config;
    return localJail({
      ...needs,
      workspaceDir: slot.workspaceDir,
      workspaceInPlace,
      allowRead,
      allowWrite,
      protectedPaths: [...(protectedPaths ?? []), ...(held?.paths ?? [])],
      protectedRoots: held?.roots,
      hidden,
      network: this.#network(slot),
      env: { ...needs.env, ...passedEnv },
    });
  }

  #network(slot: { runDir: string }): NonNullable<LocalJailOptions["network"]> {
    if (this.#proxies) return { proxyDir: this.#proxies.folderOf(slot) };
    return this.#config.allowNet.length === 0 ? "none" : "host";
  }

  #networkPhrase(): string {
    const { allowNet } = this.#config;
    if (allowNet.length === 0) return "no network";
    if (!this.#proxies) return "network of this machine";
    return allowNet.includes("*") ? "network only to public hosts" : `network only to ${allowNet.join(", ")}`;
  }

  /** Without a jail, too, nothing of our own environment gets in that was not named. */
  #openEnv(runDir: string, { python, env }: KernelNeeds): Record<string, string> {
    const path = [...(python ? [dirname(python)] : []), process.env.PATH ?? "/usr/local/bin:/usr/bin:/bin"];
    return {
      PATH: path.join(delimiter),
      HOME: homedir(),
      LANG: "C.UTF-8",
      JUPYTER_PLATFORM_DIRS: "1",
      TMPDIR: tmpdir(),
      IPYTHONDIR: join(runDir, "ipython"),
      ...env,
      ...this.#config.passedEnv,
    };
  }
}

function noJail(obstacle: string): CellwrightError {
  return new CellwrightError("kernel_start_failed", `Code cannot be jailed on this machine: ${obstacle}.`, {
    hint: "Repair that, use env `wasm`, or start Cellwright with --jail none to run code with all your rights.",
  });
}
