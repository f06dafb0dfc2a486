import { Browser } from "./browser/browser.ts";
import type { Guest } from "./engine/guest.ts";
import { Sessions } from "./engine/sessions/sessions.ts";
import { protectedRoots, writeRules } from "./isolation/protected/protected-roots.ts";
import type { Backends, Environments, PackageImages } from "./kernels/kernel.ts";
import {
  createProvider,
  openPackageImages,
  openPythonEnvironments,
  protectedFromSessions,
} from "./kernels/providers.ts";
import { createLog, type Log } from "./log.ts";
import type { Options } from "./options/options.ts";
import { createFigureDrawer } from "./render/figures/draw.ts";
import { openDiskStore } from "./store/disk.ts";
import { openMirroredStore } from "./store/mirrored.ts";
import type { Store } from "./store/store.ts";
import { openHostFiles } from "./workspace/host-files.ts";
import type { Protected } from "./workspace/local/protected-paths.ts";
import { openLocalWorkspace } from "./workspace/local/workspace.ts";
import type { Workspace } from "./workspace/workspace.ts";

/** The running program, without a transport. */
export interface App {
  options: Options;
  log: Log;
  store: Store;
  sessions: Sessions;
  /** Draws figures for all sessions; started by the first figure. */
  browser: Browser;
  /** The remote servers that sessions are balanced over; absent for kernels on this machine. */
  backends?: Backends | undefined;
  /** The user's own files that tools may touch, if any. */
  hostFiles(dir: string | undefined): Workspace | undefined;
  /** Stops everything, in reverse order. Can be called twice. */
  dispose(): Promise<void>;
}

export interface AppParts {
  log?: Log;
  /** How a toolset changes the engine; see engine/guest.ts. */
  guest?: ((services: { draw: ReturnType<typeof createFigureDrawer> }) => Guest) | undefined;
}

export async function createApp(
  options: Options,
  { log = createLog(options.logLevel), guest: createGuest }: AppParts = {},
): Promise<App> {
  const { dataDir, sessionsDir, diskMb } = options;
  const disk = await openDiskStore({ dataDir, sessionsDir, maxSessionMb: diskMb, log });
  const browser = new Browser({ jail: options.jail, log });
  const guest = createGuest?.({ draw: createFigureDrawer(browser) });
  const provider = await createProvider(options, log);
  const environments = await protectedFromSessions(options);
  const store = provider.mirror ? openMirroredStore({ store: disk, mirror: provider.mirror, log }) : disk;
  const sessions = new Sessions({
    provider,
    store,
    openWorkspace: (dir) => openLocalWorkspace(dir, { protect: protection(options, environments, dir) }),
    log,
    defaultTimeoutMs: options.timeout,
    ttlMs: options.sessionTtl,
    keepDays: options.keepDays,
    maxSessions: options.maxSessions,
    warm: options.warm,
    restore: options.restore,
    guest,
    sharedWorkspaceDir: options.workspace,
  });
  let disposed: Promise<void> | undefined;
  return {
    options,
    log,
    store,
    sessions,
    browser,
    backends: provider.backends,
    hostFiles: (dir) => (dir === undefined ? undefined : openHostFiles(dir, environments)),
    dispose: () => {
      disposed ??= Promise.all([sessions.dispose(), browser.dispose()]).then(() => store.dispose());
      return disposed;
    },
  };
}

/** Paths that file tools may not change: environments and, in the user's own folder, files that host programs obey. */
function protection({ workspace, allowWrite }: Options, environments: string[], dir: string): () => Protected {
  const roots = workspace === undefined ? [] : [dir];
  const { lifted } = writeRules(allowWrite, workspace);
  return () => ({ folders: environments, roots: protectedRoots(roots, lifted) });
}

/** The Python environments of this machine, without starting a session. */
export function openEnvironments(options: Options, log = createLog(options.logLevel)): Promise<Environments> {
  return openPythonEnvironments(options, log);
}

/** The package images that kernels share, without starting a session. */
export function openImages(options: Options, log = createLog(options.logLevel)): Promise<PackageImages> {
  return openPackageImages(options, log);
}
