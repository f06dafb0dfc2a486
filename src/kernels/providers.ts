import { join } from "node:path";
import type { ObeyedPaths } from "../isolation/protected/obeyed-paths.ts";
import type { Sandboxes } from "../isolation/sandboxes.ts";
import type { Log } from "../log.ts";
import { dataFolders, keptToken } from "../options/data-folders.ts";
import type { Options } from "../options/options.ts";
import { combineProviders } from "./combined.ts";
import { type Environments, type KernelProvider, ORPHAN_TTL_MS, type PackageImages } from "./kernel.ts";

type Build = (options: Options, log: Log, obeyed: ObeyedPaths) => Promise<KernelProvider>;

/** The only list of backends. Each is imported on first use: their dependencies are heavy. */
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
    const { local, bash, sandboxes } = await ofThisMachine(options, log, obeyed);
    return combineProviders({ name: "local", local, bash, preferred: "local", dispose: () => sandboxes.dispose() });
  },

  /** Jupyter servers, which may be remote. */
  jupyter: async (options, log) => {
    const { createRemoteProvider } = await import("./remote/provider.ts");
    const { jupyterUrl, jupyterToken, notebooksFolder, coolDown, startTimeout } = options;
    return createRemoteProvider({
      urls: jupyterUrl,
      token: jupyterToken,
      notebooksFolder,
      coolDownMs: coolDown,
      startTimeoutMs: startTimeout,
      log,
    });
  },

  /** A pool of sandboxes behind HTTP. */
  pool: async (options, log) => {
    const { createPoolProvider } = await import("./pool/provider.ts");
    const { poolUrl: urls, poolToken: token, coolDown: coolDownMs, plainNames, insecure } = options;
    const ownToken = token === undefined && !insecure ? await keptToken(options.dataDir, "pool-token") : undefined;
    return createPoolProvider({ urls, token, ownToken, anyListener: insecure, coolDownMs, plainNames, log });
  },

  /** The managed environment, if it exists and can be sandboxed; otherwise WASM. */
  auto: async (options, log, obeyed) => {
    const [wasm, { local, bash, sandboxes }, { isManagedCreated }] = await Promise.all([
      providers.wasm(options, log, obeyed),
      ofThisMachine(options, log, obeyed),
      import("./local/environments/create/managed.ts"),
    ]);
    const why = await whyNotLocal(options, sandboxes, isManagedCreated(options.dataDir));
    const preferred = why === undefined ? "local" : "wasm";
    return combineProviders({ name: "auto", local, bash, wasm, preferred, why, dispose: () => sandboxes.dispose() });
  },
};

async function whyNotLocal({ env }: Options, sandboxes: Sandboxes, isCreated: boolean): Promise<string | undefined> {
  if (env === "wasm") return "Selected by --env.";
  if (env === undefined && !isCreated) {
    return "No managed environment exists; `cellwright env create` creates it.";
  }
  const obstacle = await sandboxes.obstacle();
  return obstacle && `Local code cannot be sandboxed here: ${obstacle}.`;
}

export async function createProvider(options: Options, log: Log): Promise<KernelProvider> {
  // Before any code runs, which could otherwise influence the result.
  await protectedFromSessions(options);
  return providers[options.kernel](options, log, await obeyedPaths(options, log));
}

/** Local Python and bash, in the same kind of sandbox. */
async function ofThisMachine(options: Options, log: Log, obeyed: ObeyedPaths) {
  const [
    { Sandboxes },
    { writeRules },
    { createLocalProvider },
    { createBashProvider },
    { findEnvironment },
    { environmentsConfig, vouchFor },
    { openOverlay },
  ] = await Promise.all([
    import("../isolation/sandboxes.ts"),
    import("../isolation/protected/protected-roots.ts"),
    import("./local/provider.ts"),
    import("./bash/provider.ts"),
    import("./local/environments/find.ts"),
    import("./local/environments/environments.ts"),
    import("./local/packages/overlay.ts"),
  ]);
  const { dataDir, memoryMb, diskMb, cpus, pids, allowRead, allowNet, jail, workspace } = options;
  const stateDir = join(dataDir, "state");
  const vouched = vouchFor(options);
  const sandboxes = new Sandboxes({
    jail,
    limits: { memoryMb, diskMb, cpus, pids },
    workspaceInPlace: workspace !== undefined,
    namedWorkspaces: options.namedWorkspaces,
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
  const environments = environmentsConfig(options, { vouched, jail: jailOf(sandboxes), log });
  const startTimeoutMs = options.startTimeout;
  const orphanTtlMs = options.sessionTtl || ORPHAN_TTL_MS;
  return {
    sandboxes,
    local: createLocalProvider({
      ...{ environments, sandboxes, stateDir, orphanTtlMs, startTimeoutMs, log },
      limits: { memoryMb, diskMb },
      packages: { initial: options.packages, packageDir: options.packageDir },
    }),
    bash: createBashProvider({
      sandboxes,
      environment: (name) => findEnvironment(name, environments),
      packagesOf: ({ runDir }) => openOverlay(runDir),
      startTimeoutMs,
      log,
    }),
  };
}

/** Files in the user's folders that host programs obey, and mount points that an earlier run may have left there. */
async function obeyedPaths({ allowWrite, workspace, dataDir }: Options, log: Log): Promise<ObeyedPaths> {
  const [{ ObeyedPaths }, { writeRules }] = await Promise.all([
    import("../isolation/protected/obeyed-paths.ts"),
    import("../isolation/protected/protected-roots.ts"),
  ]);
  const recordsDir = join(dataDir, "state", "placeholders");
  const places = new ObeyedPaths({ recordsDir, lifted: writeRules(allowWrite, workspace).lifted, log });
  await places.sweep();
  return places;
}

function jailOf(sandboxes: Sandboxes) {
  return { isOff: !sandboxes.jails, isolation: () => sandboxes.find() };
}

function pickEnv(names: string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}

/** Files that also run outside of jails (environments, this program): no session may change them. */
export async function protectedFromSessions(options: Options): Promise<string[]> {
  const [{ vouchFor }, { ownProgramPaths }] = await Promise.all([
    import("./local/environments/environments.ts"),
    import("../isolation/own-program.ts"),
  ]);
  return [...vouchFor(options).protectedPaths, join(options.dataDir, "envs"), ...ownProgramPaths()];
}

/** The environments of local kernels, for the `env` command. */
export async function openPythonEnvironments(options: Options, log: Log): Promise<Environments> {
  const [{ createEnvironments, environmentsConfig, vouchFor }, { findIsolation }] = await Promise.all([
    import("./local/environments/environments.ts"),
    import("../isolation/isolation.ts"),
  ]);
  const jail = { isOff: options.jail === "none", isolation: () => findIsolation(options.jail) };
  // The operator at the terminal may name environments by path.
  const all = { ...options, allowEnvPaths: true };
  return createEnvironments(environmentsConfig(all, { vouched: vouchFor(options), jail, log }));
}

/** The package images of WASM kernels, for the `packages` command. */
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
