import { CellwrightError } from "../../errors.ts";
import { findIsolation } from "../../jail/isolation.ts";
import type { JailMode } from "../../jail/jail.ts";
import { sharedLibraries } from "../../jail/libraries.ts";
import type { ObeyedPlaces } from "../../jail/obeyed-places.ts";
import type { Log } from "../../log.ts";
import { withCompanions } from "../../packages/companions.ts";
import type { Kernel, KernelProvider, StartOptions, WarmSlot } from "../kernel.ts";
import type { DenoIsolation } from "./launch.ts";
import { createPackages, type Packages, type PackagesConfig } from "./packages/packages.ts";
import { findReadable, type Readable } from "./readable.ts";
import { createSnapshots, type Snapshots } from "./snapshot.ts";
import { findSources, type Sources } from "./sources.ts";
import { describe, startKernel } from "./start.ts";

export interface WasmConfig {
  /** Where the snapshot is kept. */
  cacheDir: string;
  memoryMb: number;
  diskMb: number;
  /** Folders of the user's that code may read, at their own paths. */
  allowRead?: string[];
  /** For workspaces that are the user's folder: what hosts obey there. */
  obeyed?: ObeyedPlaces | undefined;
  /** What also runs outside of jails: only read by code, wherever it is. */
  protectedPaths?: string[] | undefined;
  jail: JailMode;
  findIsolation?: typeof findIsolation;
  startTimeoutMs: number;
  /** Where packages come from; without it kernels have the standard library alone. */
  packages?: WasmPackagesConfig;
  log: Log;
}

export interface WasmPackagesConfig extends Omit<PackagesConfig, "cacheDir" | "log"> {
  /** What every kernel has from its start. */
  initial: string[];
  /** Whether a cell gets what it imports without asking. */
  automatic: boolean;
}

/** What is found out once, when the first kernel is wanted. */
interface Surroundings {
  sources: Sources;
  snapshots: Snapshots;
  packages: Packages | undefined;
  isolation: DenoIsolation | undefined;
  walls: string[];
  readable: Readable[];
  /** What cannot be as it was asked for. */
  notes: string[];
}

/** Python in WebAssembly: needs nothing but Node, and cannot touch the machine. */
export function createWasmProvider(config: WasmConfig): KernelProvider {
  const { log } = config;
  const warming = new Map<string, Promise<Kernel | undefined>>();
  const live = new Set<Kernel>();
  const disposing = new AbortController();
  let surroundings: Promise<Surroundings> | undefined;
  let rebuilt = false;

  const lookAround = (): Promise<Surroundings> => {
    surroundings ??= findSurroundings(config, disposing.signal);
    surroundings.catch(() => {
      surroundings = undefined;
    });
    return surroundings;
  };

  const startFresh = async (options: Omit<StartOptions, "sessionId"> & WarmSlot): Promise<Kernel> => {
    const { sources, snapshots, packages, isolation, walls, readable, notes } = await lookAround();
    const signal = AbortSignal.any([options.signal, disposing.signal]);
    const { memoryMb, diskMb, startTimeoutMs, obeyed, protectedPaths } = config;
    const { initial = [], automatic = false } = config.packages ?? {};
    const { progress } = options;
    const image =
      packages && initial.length > 0 ? await packages.image(withCompanions(initial), { signal, progress }) : undefined;
    const attempt = async () =>
      startKernel({
        sources,
        snapshot: await unlessAborted(snapshots.get({ image, progress }), signal),
        slot: options,
        memoryMb,
        diskMb,
        isolation,
        walls,
        obeyed,
        protectedPaths,
        readable,
        notes,
        image,
        packages: packages && { packages, automatic },
        startTimeoutMs,
        signal,
        log,
      });
    const kernel = await attempt().catch(async (error) => {
      // A snapshot can be whole and still not start. Built anew once; if that does not help, it was something else.
      const mayBeSnapshot = error instanceof CellwrightError && error.code === "kernel_start_failed";
      if (rebuilt || signal.aborted || !mayBeSnapshot) throw error;
      rebuilt = true;
      log.warn("a kernel did not start; building its snapshot again", error);
      await snapshots.discard();
      return attempt();
    });
    live.add(kernel);
    void kernel.closed.then(() => live.delete(kernel));
    return kernel;
  };

  return {
    name: "wasm",

    async list() {
      const { sources, walls, notes } = await lookAround();
      return [describe(pythonOf(sources.versions.pyodide), walls, notes)];
    },

    async start(spec, options) {
      if (spec.language !== "python") {
        throw new CellwrightError("kernel_not_found", `WASM kernels run Python, not \`${spec.language}\`.`);
      }
      if (spec.env !== undefined && spec.env !== "wasm") {
        throw new CellwrightError("kernel_not_found", `There is no environment \`${spec.env}\` here, only \`wasm\`.`);
      }
      options.signal.throwIfAborted();
      const warm = warming.get(options.sessionId);
      warming.delete(options.sessionId);
      const kernel = warm && (await unlessAborted(warm, options.signal, (late) => late?.dispose()));
      return kernel ?? startFresh(options);
    },

    warm(slot) {
      if (disposing.signal.aborted || warming.has(slot.sessionId)) return;
      const started = startFresh({ ...slot, signal: disposing.signal }).catch((error) => {
        log.debug(`a warm kernel did not start: ${error}`);
        return undefined;
      });
      warming.set(slot.sessionId, started);
      void started.then(async (kernel) => {
        await kernel?.closed;
        if (warming.get(slot.sessionId) === started) warming.delete(slot.sessionId);
      });
    },

    async dispose() {
      disposing.abort(new CellwrightError("kernel_start_failed", "The kernels are being shut down."));
      await Promise.all([...warming.values()]);
      await Promise.all([...live].map((kernel) => kernel.dispose()));
      const { snapshots, packages } = (await surroundings?.catch(() => undefined)) ?? {};
      await Promise.all([snapshots?.settled(), packages?.dispose()]);
    },
  };
}

const tierPhrases = { namespaces: "namespaces", landlock: "Landlock" };

async function findSurroundings(config: WasmConfig, disposing: AbortSignal): Promise<Surroundings> {
  const sources = findSources();
  const found = await (config.findIsolation ?? findIsolation)(config.jail);
  const isRequired = config.jail === "namespaces" || config.jail === "landlock";
  if ("obstacle" in found && isRequired) {
    throw new CellwrightError("kernel_start_failed", `The kernel cannot be isolated as required: ${found.obstacle}.`, {
      hint: "Repair that, or start with --jail auto.",
    });
  }
  const isolation = "obstacle" in found ? undefined : { ...found, libraries: await sharedLibraries(sources.denoFile) };
  const { cacheDir, memoryMb, log } = config;
  return {
    sources,
    packages: config.packages && createPackages({ ...config.packages, cacheDir, log }, sources),
    snapshots: createSnapshots({ sources, cacheDir, isolation, memoryMb, disposing, log }),
    isolation,
    ...(await findReadable(config.allowRead ?? [])),
    walls: ["Deno permissions", ...(isolation ? [tierPhrases[isolation.tier], "system call filter"] : [])],
  };
}

/** Pyodide 314.x is built on Python 3.14. */
function pythonOf(pyodide: string): string {
  return pyodide.replace(/^(\d)(\d+)\..*$/, "$1.$2");
}

/** What was promised, unless the caller gives up first; `discard` then gets it when it comes. */
async function unlessAborted<T>(
  promised: Promise<T>,
  signal: AbortSignal,
  discard: (late: T) => unknown = () => {},
): Promise<T> {
  let giveUp = () => {};
  const gaveUp = new Promise<never>((_, reject) => {
    giveUp = () => reject(signal.reason);
  });
  if (signal.aborted) giveUp();
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([promised, gaveUp]);
  } catch (error) {
    if (signal.aborted) void promised.then(discard, () => {});
    throw error;
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}
