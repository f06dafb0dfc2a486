import { Browser } from "./browser/browser.ts";
import { protectedRoots, writeRules } from "./jail/protected-roots.ts";
import type { Backends, Environments, PackageImages } from "./kernels/kernel.ts";
import {
  createProvider,
  openPackageImages,
  openPythonEnvironments,
  protectedFromSessions,
} from "./kernels/providers.ts";
import { createLog, type Log } from "./log.ts";
import { createFigureDrawer } from "./mcp/render/draw.ts";
import type { Options } from "./options.ts";
import { createDisplaySaver } from "./session/display-files.ts";
import { Sessions } from "./session/sessions.ts";
import { openDiskStore } from "./store/disk.ts";
import { openMirroredStore } from "./store/mirrored.ts";
import type { Store } from "./store/store.ts";
import { openHostFiles } from "./workspace/host-files.ts";
import { openLocalWorkspace } from "./workspace/local.ts";
import type { Protected } from "./workspace/protected-places.ts";
import type { Workspace } from "./workspace/workspace.ts";

/** The running program without a way to talk to it. */
export interface App {
  options: Options;
  log: Log;
  store: Store;
  sessions: Sessions;
  /** For figures of all sessions; started by the first one. */
  browser: Browser;
  /** What sessions are spread over, where that is more than this machine. */
  backends?: Backends | undefined;
  /** The user's own files that tools may touch, if any. */
  hostFiles(dir: string | undefined): Workspace | undefined;
  /** Ends all that was started, in reverse order. Can be called twice. */
  dispose(): Promise<void>;
}

export async function createApp(options: Options, log = createLog(options.logLevel)): Promise<App> {
  const { dataDir, sessionsDir, diskMb } = options;
  const disk = await openDiskStore({ dataDir, sessionsDir, maxSessionMb: diskMb, log });
  const provider = await createProvider(options, log);
  const environments = await protectedFromSessions(options);
  const store = provider.mirror ? openMirroredStore({ store: disk, mirror: provider.mirror, log }) : disk;
  const browser = new Browser({ jail: options.jail, log });
  const sessions = new Sessions({
    provider,
    store,
    openWorkspace: (dir) => openLocalWorkspace(dir, { protect: protection(options, environments, dir) }),
    log,
    defaultTimeoutMs: options.timeout,
    ttlMs: options.sessionTtl,
    forgetExpired: options.deleteExpired,
    sweepMs: options.sweepEvery,
    keepDays: options.keepDays,
    maxSessions: options.maxSessions,
    warm: options.warm,
    restore: options.restore,
    classic: options.classic,
    saveDisplays: options.saveDisplays ? createDisplaySaver({ draw: createFigureDrawer(browser) }) : undefined,
    commands: options.shellLines,
    cellsFile: options.cellsFile,
    ids: options.sessionIds,
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

/** What file tools may not change in a session's folder: environments, and in the user's own folder what hosts obey. */
function protection({ workspace, allowWrite }: Options, environments: string[], dir: string): () => Protected {
  const roots = workspace === undefined ? [] : [dir];
  const { lifted } = writeRules(allowWrite, workspace);
  return () => ({ folders: environments, roots: protectedRoots(roots, lifted) });
}

/** The Python environments of this machine, without starting a session. */
export function openEnvironments(options: Options, log = createLog(options.logLevel)): Promise<Environments> {
  return openPythonEnvironments(options, log);
}

/** The packages that kernels share, without starting anything. */
export function openImages(options: Options, log = createLog(options.logLevel)): Promise<PackageImages> {
  return openPackageImages(options, log);
}
