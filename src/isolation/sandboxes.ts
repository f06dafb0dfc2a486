import { mkdtemp } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { CellwrightError } from "../errors.ts";
import type { Log } from "../log.ts";
import { removeFolder } from "../process/remove-folder.ts";
import { type Enclosure, enclosure } from "./enclosure.ts";
import type { ProcessExit } from "./exit.ts";
import { type FoundIsolation, findIsolation } from "./isolation.ts";
import type { Isolation, Jail, JailMode, Limits } from "./jail.ts";
import { type LimitSetter, openLimits, type ProcessLimits } from "./limits/limits.ts";
import { type OwnFile, watchUse } from "./limits/use-watch.ts";
import { type LocalJailOptions, localJail, readableRoots } from "./local-jail.ts";
import { SessionProxies } from "./network/session-proxies.ts";
import { familyOf } from "./processes.ts";
import type { HeldPaths, ObeyedPaths } from "./protected/obeyed-paths.ts";

export interface SandboxesConfig {
  jail: JailMode;
  limits: Limits;
  /** Sessions work in the user's folder, mounted at its own path. */
  workspaceInPlace: boolean;
  /** The path at which code sees its workspace ends in the session's id. */
  namedWorkspaces?: boolean | undefined;
  allowRead: string[];
  allowWrite: string[];
  /** Hosts, `*` for all public ones, `host` for this machine's network. Empty: no network. */
  allowNet: string[];
  /** Environment variables to pass to code. */
  passedEnv: Record<string, string>;
  /** Read-only folders below writable ones: their code also runs outside of jails. */
  protectedPaths?: string[] | undefined;
  /** Protects files below writable user folders that host programs obey; absent: not protected. */
  obeyed?: ObeyedPaths | undefined;
  /** Parents of the sessions' folders, for zygotes. Absent: zygotes are not isolated. */
  sessionFolders?: string[] | undefined;
  /** Invisible to code, even if below an allowed folder. */
  hidden: string[];
  log: Log;
}

/** Isolation and limits of one kernel. */
export interface KernelSandbox extends KernelLimits {
  /** Undefined: `--jail none`. */
  jail: Jail | undefined;
  /** Its whole environment if it has no jail. */
  env: Record<string, string>;
  /** The isolation layers as short phrases, to show. */
  phrases: string[];
}

/** Resource limits of one kernel. */
export interface KernelLimits {
  limits: ProcessLimits;
  /** What could not be limited, as sentences. */
  notes: string[];
  causeOfDeath(exit: ProcessExit): Promise<string>;
  /** Enforces limits that the system does not, until `dispose`. */
  watch(kernel: WatchedKernel): void;
  /** Called when the kernel has ended. */
  dispose(): Promise<void>;
}

export interface WatchedKernel {
  /** Ancestor of all its processes; without it only a cgroup knows them. */
  pid?: number;
  /** Folders besides its workspace that it can write to. */
  folders?: string[];
  ownFiles?: OwnFile[];
  isBusy(): boolean;
  /** Called if it exceeded a limit, or a path could not be protected any more. */
  kill(reason: string): void;
}

/** The session of a kernel, and its folders. */
interface Slot {
  sessionId: string;
  workspaceDir: string;
  runDir: string;
}

/** What the kernel must be able to access; see `LocalJailOptions`. */
export type KernelNeeds = Pick<
  LocalJailOptions,
  "environmentPaths" | "python" | "supportPaths" | "socketsDir" | "overlayDir" | "env"
>;

const tierPhrases: Record<Isolation["tier"], string[]> = { namespaces: ["namespaces"], landlock: ["Landlock"] };

/** `--allow-net=host`. */
const WHOLE_NETWORK = "host";

/** Creates the sandboxes of local kernels, both Python and bash. */
export class Sandboxes {
  readonly #config: SandboxesConfig;
  #limits: Promise<LimitSetter> | undefined;
  /** Set if code may reach some hosts only. */
  readonly #proxies: SessionProxies | undefined;

  constructor(config: SandboxesConfig) {
    this.#config = config;
    const { allowNet: allow, jail, log } = config;
    const isFiltered = jail !== "none" && allow.length > 0 && !allow.includes(WHOLE_NETWORK);
    this.#proxies = isFiltered ? new SessionProxies({ allow, log }) : undefined;
  }

  /** False: `--jail none`. */
  get jails(): boolean {
    return this.#config.jail !== "none";
  }

  /** Why local code cannot run here: no jail works, and `--jail none` was not given. */
  async obstacle(): Promise<string | undefined> {
    if (!this.jails) return undefined;
    const found = await this.find();
    return "obstacle" in found ? found.obstacle : undefined;
  }

  /** How kernels are isolated; undefined with `--jail none`. Throws if no isolation works. */
  async isolation(): Promise<Isolation | undefined> {
    if (!this.jails) return undefined;
    const found = await this.find();
    if ("obstacle" in found) throw noJail(found.obstacle);
    return found;
  }

  /** The same, or why none works. */
  find(): Promise<FoundIsolation> {
    return findIsolation(this.#config.jail);
  }

  async for(slot: Slot, needs: KernelNeeds): Promise<KernelSandbox> {
    const isolation = await this.isolation();
    const held = await this.#hold(slot.workspaceDir, isolation);
    // With namespaces, /tmp is a tmpfs.
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

  /** The sandbox of a zygote: only what its kernels need. Undefined: not isolated. */
  async enclosure(needs: { readable: string[]; writable: string[] }): Promise<Enclosure | undefined> {
    const isolation = await this.isolation();
    const { sessionFolders, allowRead, allowWrite, allowNet } = this.#config;
    if (!isolation || !sessionFolders) return undefined;
    return enclosure({
      isolation,
      readable: [...needs.readable, ...(await readableRoots(allowRead))],
      writable: [...needs.writable, ...sessionFolders, ...allowWrite],
      // The gate of a fork connects to the session's proxy.
      network: allowNet.length > 0,
    });
  }

  /** Only limits and network proxy, for an adopted kernel, which has its jail already. */
  async limitsOf(slot: Slot): Promise<KernelLimits> {
    const isolation = this.jails ? await this.find() : undefined;
    const held = isolation && "tier" in isolation ? await this.#hold(slot.workspaceDir, isolation) : undefined;
    return this.#limitsOf(slot, { held });
  }

  /** Protects files in the user's folders that host programs obey, until it is released. */
  async #hold(workspaceDir: string, isolation: Isolation | undefined): Promise<HeldPaths | undefined> {
    const { obeyed, workspaceInPlace, allowWrite } = this.#config;
    if (!isolation || !obeyed) return undefined;
    const folders = [...(workspaceInPlace ? [workspaceDir] : []), ...allowWrite];
    if (isolation.tier === "namespaces") return obeyed.hold(folders);
    // Landlock also denies creating them, so no mount points are needed and none can be lost.
    return { roots: obeyed.rootsOf(folders), paths: [], onLost: () => {}, release: async () => {} };
  }

  async #limitsOf(
    slot: Slot,
    { held, ownFolders = [] }: { held: HeldPaths | undefined; ownFolders?: string[] },
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
        watches.push(
          watchUse({ ...kernel, onExceeded: (reason) => kernel.kill(reason), processes, folders, diskMb, memoryMb }),
        );
        held?.onLost((reason) => kernel.kill(reason));
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
    held: HeldPaths | undefined,
  ): Promise<Jail> {
    const { allowRead, allowWrite, protectedPaths, hidden, workspaceInPlace, namedWorkspaces, passedEnv } =
      this.#config;
    return localJail({
      ...needs,
      workspaceDir: slot.workspaceDir,
      workspaceInPlace,
      workspaceName: namedWorkspaces ? slot.sessionId : undefined,
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

  /** Even without a jail, code gets only the variables that were named. */
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
  return new CellwrightError("kernel_start_failed", `No OS sandbox works on this machine: ${obstacle}.`, {
    hint: "Fix that, use env `wasm`, or start Cellwright with --jail none to run code with all your rights.",
  });
}
