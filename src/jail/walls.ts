import { createHash } from "node:crypto";
import { homedir, tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { CellwrightError } from "../errors.ts";
import type { Log } from "../log.ts";
import { probeBubblewrap } from "./bubblewrap.ts";
import type { Jail, JailMode, Limits } from "./jail.ts";
import { type LimitSetter, openLimits, type ProcessExit, type ProcessLimits } from "./limits.ts";
import { type LocalJailOptions, localJail } from "./local-jail.ts";
import { familyOf } from "./processes.ts";
import { type NetProxy, openProxy } from "./proxy.ts";
import { seccompFilter } from "./seccomp.ts";
import { type OwnFile, watchUse } from "./use-watch.ts";

export interface WallsConfig {
  jail: JailMode;
  limits: Limits;
  /** Sessions work in a folder of the user's, which code sees at its own path. */
  workspaceInPlace: boolean;
  allowRead: string[];
  allowWrite: string[];
  /** Hosts, or `*` for the whole network. Empty: none. */
  allowNet: string[];
  /** What code is to see of this program's environment. */
  passedEnv: Record<string, string>;
  /** Folders below what code may write that it may only read: what is in them also runs outside of jails. */
  protectedPaths?: string[] | undefined;
  /** Never seen by code, though it may lie below something allowed. */
  hidden: string[];
  /** A folder of this process's own. */
  stateDir: string;
  log: Log;
}

/** What one kernel has around it. */
export interface KernelWalls extends KernelLimits {
  /** Absent: it was asked for by name to have none. */
  jail: Jail | undefined;
  seccomp: Uint8Array | undefined;
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

/** What the kernel needs to be shown; see `LocalJailOptions`. */
export type KernelNeeds = Pick<
  LocalJailOptions,
  "environmentPaths" | "python" | "supportPaths" | "socketsDir" | "overlayDir" | "env"
>;

/** The walls around processes of this machine that run user code: made alike for Python and for bash. */
export class Walls {
  readonly #config: WallsConfig;
  #obstacle: Promise<string | undefined> | undefined;
  #limits: Promise<LimitSetter> | undefined;
  #proxy: Promise<NetProxy> | undefined;

  constructor(config: WallsConfig) {
    this.#config = config;
  }

  /** False: `--jail none`. */
  get jails(): boolean {
    return this.#config.jail !== "none";
  }

  /** Why code of this machine cannot be run in a jail here, and was not allowed to be run without one. */
  async obstacle(): Promise<string | undefined> {
    if (this.#config.jail === "none") return undefined;
    this.#obstacle ??= probeBubblewrap();
    return this.#obstacle;
  }

  async for(
    slot: { sessionId: string; workspaceDir: string; runDir: string },
    needs: KernelNeeds,
  ): Promise<KernelWalls> {
    const obstacle = await this.obstacle();
    if (obstacle) throw noJail(obstacle);
    const jail = this.jails ? await this.#jail(slot.workspaceDir, needs) : undefined;
    return {
      jail,
      seccomp: jail && seccompFilter(),
      env: this.#openEnv(slot.runDir, needs),
      phrases: jail ? ["namespaces", "system call filter", this.#networkPhrase()] : [],
      ...(await this.limitsOf(slot)),
    };
  }

  /** The limits alone, for a kernel that has its jail already. */
  async limitsOf({ sessionId, workspaceDir }: { sessionId: string; workspaceDir: string }): Promise<KernelLimits> {
    const { limits: wanted, log } = this.#config;
    this.#limits ??= openLimits(log);
    const limits = await (await this.#limits).for(sessionId, wanted);
    const watches: { stop(): void }[] = [];
    return {
      limits: limits.forProcess,
      notes: limits.notes,
      causeOfDeath: (exit) => limits.causeOfDeath(exit),
      watch: (kernel) => {
        const memoryMb = limits.limitsMemory ? undefined : wanted.memoryMb;
        const folders = [workspaceDir, ...(kernel.folders ?? [])];
        const { diskMb } = wanted;
        const processes = async () => {
          const counted = await limits.processes();
          return counted.length > 0 || kernel.pid === undefined ? counted : familyOf(kernel.pid);
        };
        watches.push(watchUse({ ...kernel, processes, folders, diskMb, memoryMb }));
      },
      dispose: async () => {
        for (const watch of watches) watch.stop();
        await limits.dispose();
      },
    };
  }

  async dispose(): Promise<void> {
    const proxy = await this.#proxy?.catch(() => undefined);
    await proxy?.dispose();
  }

  async #jail(workspaceDir: string, needs: KernelNeeds): Promise<Jail> {
    const { allowRead, allowWrite, protectedPaths, hidden, workspaceInPlace, passedEnv } = this.#config;
    return localJail({
      ...needs,
      workspaceDir,
      workspaceInPlace,
      allowRead,
      allowWrite,
      protectedPaths,
      hidden,
      network: await this.#network(),
      env: { ...needs.env, ...passedEnv },
    });
  }

  async #network(): Promise<NonNullable<LocalJailOptions["network"]>> {
    const { allowNet, stateDir, log } = this.#config;
    if (allowNet.length === 0) return "none";
    if (allowNet.includes("*")) return "host";
    // Named after what it lets through: kernels that outlive this process find the next one's there, and no other's.
    const proxyDir = join(stateDir, `proxy-${createHash("sha256").update(allowNet.join()).digest("hex").slice(0, 8)}`);
    this.#proxy ??= openProxy({ folder: proxyDir, allow: allowNet, log });
    await this.#proxy;
    return { proxyDir };
  }

  #networkPhrase(): string {
    const { allowNet } = this.#config;
    if (allowNet.length === 0) return "no network";
    return allowNet.includes("*") ? "network open" : `network only to ${allowNet.join(", ")}`;
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
