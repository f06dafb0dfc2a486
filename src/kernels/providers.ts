import { join } from "node:path";
import type { Walls } from "../jail/walls.ts";
import type { Log } from "../log.ts";
import type { Options } from "../options.ts";
import { combineProviders } from "./combined.ts";
import { type Environments, type KernelProvider, ORPHAN_TTL_MS, type PackageImages } from "./kernel.ts";

type Build = (options: Options, log: Log) => Promise<KernelProvider>;

/** The only list of backends. Each is imported when it is first wanted: its dependencies are heavy. */
const providers: Record<Options["kernel"], Build> = {
  wasm: async (options, log) => {
    const { createWasmProvider } = await import("./wasm/provider.ts");
    return createWasmProvider({
      cacheDir: join(options.dataDir, "cache"),
      memoryMb: options.memoryMb,
      diskMb: options.diskMb,
      allowRead: options.allowRead,
      jail: options.jail,
      startTimeoutMs: options.startTimeout,
      packages: { initial: options.packages, automatic: !options.noInstall, ...packagePlaces(options) },
      log,
    });
  },

  local: async (options, log) => {
    const { local, bash, walls } = await ofThisMachine(options, log);
    return combineProviders({ name: "local", local, bash, preferred: "local", dispose: () => walls.dispose() });
  },

  /** Jupyter servers, which may be on other machines. */
  jupyter: async (options, log) => {
    const { createRemoteProvider } = await import("./jupyter/remote/provider.ts");
    const { jupyterUrl, jupyterToken, jupyterTokenFile, jupyterCa, notebooksFolder, coolDown, startTimeout } = options;
    return createRemoteProvider({
      urls: jupyterUrl,
      token: jupyterToken,
      tokenFile: jupyterTokenFile,
      caFile: jupyterCa,
      notebooksFolder,
      coolDownMs: coolDown,
      startTimeoutMs: startTimeout,
      log,
    });
  },

  /** Sandboxes behind HTTP, several of them. */
  pool: async (options, log) => {
    const { createPoolProvider } = await import("./pool/provider.ts");
    const { poolUrl: urls, poolToken: token, coolDown: coolDownMs, plainNames } = options;
    return createPoolProvider({ urls, token, coolDownMs, plainNames, log });
  },

  /** The managed environment once it has been created and where it can be jailed, else WASM. */
  auto: async (options, log) => {
    const [wasm, { local, bash, walls }, { isManagedCreated }] = await Promise.all([
      providers.wasm(options, log),
      ofThisMachine(options, log),
      import("./jupyter/environments/managed.ts"),
    ]);
    const why = await whyNotLocal(options, walls, isManagedCreated(options.dataDir));
    const preferred = why === undefined ? "local" : "wasm";
    return combineProviders({ name: "auto", local, bash, wasm, preferred, why, dispose: () => walls.dispose() });
  },
};

async function whyNotLocal({ env }: Options, walls: Walls, isCreated: boolean): Promise<string | undefined> {
  if (env === "wasm") return "--env says so.";
  if (env === undefined && !isCreated) {
    return "There is no managed environment; `cellwright env create` makes it.";
  }
  const obstacle = await walls.obstacle();
  return obstacle && `Local code cannot be jailed here: ${obstacle}.`;
}

export async function createProvider(options: Options, log: Log): Promise<KernelProvider> {
  return providers[options.kernel](options, log);
}

/** Python and bash of this machine, behind the same walls. */
async function ofThisMachine(options: Options, log: Log) {
  const [
    { Walls },
    { createLocalProvider },
    { createBashProvider },
    { findEnvironment },
    { environmentsConfig, projectEnvironments },
    { openOverlay },
  ] = await Promise.all([
    import("../jail/walls.ts"),
    import("./jupyter/local.ts"),
    import("./bash/provider.ts"),
    import("./jupyter/environments/find.ts"),
    import("./jupyter/environments/environments.ts"),
    import("./jupyter/install/overlay.ts"),
  ]);
  const { dataDir, memoryMb, diskMb, cpus, pids, allowRead, allowWrite, allowNet, jail, workspace } = options;
  const stateDir = join(dataDir, "state");
  const environments = environmentsConfig(options, log);
  const walls = new Walls({
    jail,
    limits: { memoryMb, diskMb, cpus, pids },
    workspaceInPlace: workspace !== undefined,
    allowRead,
    allowWrite,
    allowNet,
    passedEnv: pickEnv(options.passEnv),
    protectedPaths: [...(environments.protectedFromCode ?? []), ...projectEnvironments(workspace)],
    hidden: [dataDir, ...(options.sessionsDir ? [options.sessionsDir] : [])],
    stateDir,
    log,
  });
  const startTimeoutMs = options.startTimeout;
  const orphanTtlMs = options.sessionTtl || ORPHAN_TTL_MS;
  return {
    walls,
    local: createLocalProvider({
      ...{ environments, walls, stateDir, orphanTtlMs, startTimeoutMs, log },
      packages: { initial: options.packages, packageDir: options.packageDir },
    }),
    bash: createBashProvider({
      walls,
      // A shell works without a Python, too.
      environment: (name) => findEnvironment(name, environments).catch(() => undefined),
      packagesOf: ({ runDir }) => openOverlay(runDir),
      startTimeoutMs,
      log,
    }),
  };
}

function pickEnv(names: string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}

/** The environments of local kernels, for those who look after them. */
export async function openPythonEnvironments(options: Options, log: Log): Promise<Environments> {
  const { createEnvironments, environmentsConfig } = await import("./jupyter/environments/environments.ts");
  return createEnvironments(environmentsConfig(options, log));
}

/** The package images of WASM kernels, for those who look after them. */
export async function openPackageImages(options: Options, log: Log): Promise<PackageImages> {
  const [{ createPackages }, { findSources }] = await Promise.all([
    import("./wasm/packages/packages.ts"),
    import("./wasm/sources.ts"),
  ]);
  return createPackages({ cacheDir: join(options.dataDir, "cache"), ...packagePlaces(options), log }, findSources());
}

function packagePlaces({ packageDir, pyodideBaseUrl, packageIndex }: Options) {
  return { packageDir, pyodideBaseUrl, packageIndex, env: process.env };
}
