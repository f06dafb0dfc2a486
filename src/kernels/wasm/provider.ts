import { CellwrightError } from "../../errors.ts";
import { findIsolation } from "../../isolation/isolation.ts";
import type { JailMode } from "../../isolation/jail.ts";
import { sharedLibraries } from "../../isolation/libraries.ts";
import { withCompanions } from "../../packages/companions.ts";
import type { Kernel, KernelProvider, StartOptions, WarmSlot } from "../kernel.ts";
import { unlessAborted } from "../starting.ts";
import { createPackages, type Packages, type PackagesConfig } from "./packages/packages.ts";
import { findReadable } from "./readable.ts";
import { createSnapshots, type Snapshots } from "./snapshot.ts";
import { findSources } from "./sources.ts";
import { describe, type KernelSettings, StartFailed, type Surroundings, startKernel } from "./start.ts";

export interface WasmConfig extends KernelSettings {
  /** Folder of the snapshots. */
  cacheDir: string;
  /** User folders that code may read, at their own paths. */
  allowRead?: string[];
  jail: JailMode;
  findIsolation?: typeof findIsolation;
  /** Source of packages; absent: kernels have only the standard library. */
  packages?: WasmPackagesConfig;
}

export interface WasmPackagesConfig extends Omit<PackagesConfig, "cacheDir" | "log"> {
  /** Packages that every kernel has from the start. */
  initial: string[];
  /** Whether packages that a cell imports are installed automatically. */
  automatic: boolean;
}

/** Determined once, when the first kernel is requested. */
interface Prerequisites extends Surroundings {
  snapshots: Snapshots;
  packages: Packages | undefined;
}

/** Python in WebAssembly: needs nothing but Node, and cannot touch the machine. */
export function createWasmProvider(config: WasmConfig): KernelProvider {
  const { log } = config;
  const warming = new Map<string, Promise<Kernel | undefined>>();
  const live = new Set<Kernel>();
  const disposing = new AbortController();
  let prerequisites: Promise<Prerequisites> | undefined;
  let rebuilt = false;

  const findOnce = (): Promise<Prerequisites> => {
    prerequisites ??= findPrerequisites(config, disposing.signal);
    prerequisites.catch(() => {
      prerequisites = undefined;
    });
    return prerequisites;
  };

  const startFresh = async (options: Omit<StartOptions, "sessionId"> & WarmSlot): Promise<Kernel> => {
    const { snapshots, packages, ...surroundings } = await findOnce();
    const signal = AbortSignal.any([options.signal, disposing.signal]);
    const { initial = [], automatic = false } = config.packages ?? {};
    const { progress } = options;
    const image =
      packages && initial.length > 0 ? await packages.image(withCompanions(initial), { signal, progress }) : undefined;
    const attempt = async () =>
      startKernel({
        ...config,
        ...surroundings,
        snapshot: await unlessAborted(snapshots.get({ image, progress }), signal),
        slot: options,
        image,
        packages: packages && { packages, automatic },
        signal,
      });
    const kernel = await attempt().catch(async (error) => {
      // A complete snapshot can still fail to start. It is rebuilt once; if that does not help, the cause is another.
      if (rebuilt || signal.aborted || !(error instanceof StartFailed && error.isSnapshotSuspect)) throw error;
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
      const { sources, layers, notes } = await findOnce();
      return [describe(pythonOf(sources.versions.pyodide), layers, notes)];
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
      const { snapshots, packages } = (await prerequisites?.catch(() => undefined)) ?? {};
      await Promise.all([snapshots?.settled(), packages?.dispose()]);
    },
  };
}

const tierPhrases = { namespaces: "namespaces", landlock: "Landlock" };

async function findPrerequisites(config: WasmConfig, disposing: AbortSignal): Promise<Prerequisites> {
  const sources = findSources();
  const found = await (config.findIsolation ?? findIsolation)(config.jail);
  const isRequired = config.jail === "namespaces" || config.jail === "landlock";
  if ("obstacle" in found && isRequired) {
    throw new CellwrightError("kernel_start_failed", `The kernel cannot be isolated as required: ${found.obstacle}.`, {
      hint: "Fix that, or start Cellwright with --jail auto.",
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
    layers: ["Deno permissions", ...(isolation ? [tierPhrases[isolation.tier], "system call filter"] : [])],
  };
}

/** Pyodide 314.x is built on Python 3.14. */
function pythonOf(pyodide: string): string {
  return pyodide.replace(/^(\d)(\d+)\..*$/, "$1.$2");
}
