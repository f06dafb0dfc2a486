import { join } from "node:path";
import { dataFolders, keptToken } from "../data-folders.ts";
import type { ObeyedPlaces } from "../jail/obeyed-places.ts";
import type { Walls } from "../jail/walls.ts";
import type { Log } from "../log.ts";
import type { Options } from "../options.ts";
import { combineProviders } from "./combined.ts";
import { type Environments, type KernelProvider, ORPHAN_TTL_MS, type PackageImages } from "./kernel.ts";

type Build = (options: Options, log: Log, obeyed: ObeyedPlaces) => Promise<KernelProvider>;

/** The only list of backends. Each is imported when it is first wanted: its dependencies are heavy. */
const providers: Record<Options["kernel"], Build> = {
  wasm: async (options, log, obeyed) => {
    const { createWasmProvider } = await import("./wasm/provider.ts");
    return createWasmProvider({
      cacheDir: join(options.dataDir, "cache"),
      memoryMb: options.memoryMb,
      diskMb: options.diskMb,
      allowRead: options.allowRead,
      obeyed: options.workspace === undefined ? undefined : obeyed,
      protectedPaths: await protectedFromSessions(options),
      jail: options.jail,
      startTimeoutMs: options.startTimeout,
      packages: { initial: options.packages, automatic: !options.noInstall, ...packagePlaces(options) },
      log,
    });
  },

  local: async (options, log, obeyed) => {
    const { local, bash, walls } = await ofThisMachine(options, log, obeyed);
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
    const { poolUrl: urls, poolToken: token, coolDown: coolDownMs, plainNames, insecure } = options;
    const ownToken = token === undefined && !insecure ? await keptToken(options.dataDir, "pool-token") : undefined;
    return createPoolProvider({ urls, token, ownToken, anyListener: insecure, coolDownMs, plainNames, log });
  },

  /** The managed environment once it has been created and where it can be jailed, else WASM. */
  auto: async (options, log, obeyed) => {
    const [wasm, { local, bash, walls }, { isManagedCreated }] = await Promise.all([
      providers.wasm(options, log, obeyed),
      ofThisMachine(options, log, obeyed),
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
  // Before any code runs: afterwards it could be code's doing.
  await protectedFromSessions(options);
  return providers[options.kernel](options, log, await obeyedPlaces(options, log));
}

/** Python and bash of this machine, behind the same walls. */
async function ofThisMachine(options: Options, log: Log, obeyed: ObeyedPlaces) {
  const [
    { Walls },
    { writeRules },
    { createLocalProvider },
    { createBashProvider },
    { findEnvironment },
    { environmentsConfig, vouchFor },
    { openOverlay },
  ] = await Promise.all([
    import("../jail/walls.ts"),
    import("../jail/protected-roots.ts"),
    import("./jupyter/local.ts"),
    import("./bash/provider.ts"),
    import("./jupyter/environments/find.ts"),
    import("./jupyter/environments/environments.ts"),
    import("./jupyter/install/overlay.ts"),
  ]);
  const { dataDir, memoryMb, diskMb, cpus, pids, allowRead, allowNet, jail, workspace } = options;
  const stateDir = join(dataDir, "state");
  const vouched = vouchFor(options);
  const walls = new Walls({
    jail,
    limits: { memoryMb, diskMb, cpus, pids },
    workspaceInPlace: workspace !== undefined,
    allowRead,
    allowWrite: writeRules(options.allowWrite, workspace).allowWrite,
    allowNet,
    passedEnv: pickEnv(options.passEnv),
    protectedPaths: vouched.protectedPaths,
    obeyed,
    sessionFolders: [options.sessionsDir ?? join(dataDir, "sessions"), ...(workspace ? [workspace] : [])],
    hidden: dataFolders(options, process.env),
    log,
  });
  const environments = environmentsConfig(options, { vouched, jail: jailOf(walls), log });
  const startTimeoutMs = options.startTimeout;
  const orphanTtlMs = options.sessionTtl || ORPHAN_TTL_MS;
  return {
    walls,
    local: createLocalProvider({
      ...{ environments, walls, stateDir, orphanTtlMs, startTimeoutMs, log },
      limits: { memoryMb, diskMb },
      packages: { initial: options.packages, packageDir: options.packageDir },
    }),
    bash: createBashProvider({
      walls,
      environment: (name) => findEnvironment(name, environments),
      packagesOf: ({ runDir }) => openOverlay(runDir),
      startTimeoutMs,
      log,
    }),
  };
}

/** What hosts obey in the user's folders, and what an earlier run may have left there. */
async function obeyedPlaces({ allowWrite, workspace, dataDir }: Options, log: Log): Promise<ObeyedPlaces> {
  const [{ ObeyedPlaces }, { writeRules }] = await Promise.all([
    import("../jail/obeyed-places.ts"),
    import("../jail/protected-roots.ts"),
  ]);
  const recordsDir = join(dataDir, "state", "placeholders");
  const places = new ObeyedPlaces({ recordsDir, lifted: writeRules(allowWrite, workspace).lifted, log });
  await places.sweep();
  return places;
}

function jailOf(walls: Walls) {
  return { isOff: !walls.jails, isolation: () => walls.find() };
}

function pickEnv(names: string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}

/** What also runs outside of jails, environments and this program: nothing of a session may change it. */
export async function protectedFromSessions(options: Options): Promise<string[]> {
  const [{ vouchFor }, { ownProgramPaths }] = await Promise.all([
    import("./jupyter/environments/environments.ts"),
    import("../jail/own-program.ts"),
  ]);
  return [...vouchFor(options).protectedPaths, join(options.dataDir, "envs"), ...ownProgramPaths()];
}

/** The environments of local kernels, for those who look after them. */
export async function openPythonEnvironments(options: Options, log: Log): Promise<Environments> {
  const [{ createEnvironments, environmentsConfig, vouchFor }, { findIsolation }] = await Promise.all([
    import("./jupyter/environments/environments.ts"),
    import("../jail/isolation.ts"),
  ]);
  const jail = { isOff: options.jail === "none", isolation: () => findIsolation(options.jail) };
  // Who looks after environments is at a terminal, and names what they see.
  const all = { ...options, allowEnvPaths: true };
  return createEnvironments(environmentsConfig(all, { vouched: vouchFor(options), jail, log }));
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
