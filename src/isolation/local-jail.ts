import { readdir, realpath } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { CellwrightError } from "../errors.ts";
import { jailHostDir } from "./fork-jail.ts";
import { type Isolation, type Jail, type Mount, PROXY_PORT } from "./jail.ts";
import { mountsInPlace } from "./mounts/in-place.ts";
import { guardedFolders, mountsAround } from "./mounts/landlock.ts";
import { systemMounts } from "./mounts/system-mounts.ts";
import { ownProgramPaths } from "./own-program.ts";
import type { ProtectedRoot } from "./protected/protected-roots.ts";

/** Where a kernel in namespaces sees its sockets and connection file. */
export const SOCKETS_DIR = "/run/cellwright";

/** Paths inside a jail with namespaces; with Landlock, all paths are the host's. */
const inside = {
  workspace: "/workspace",
  sockets: SOCKETS_DIR,
  /** The session's own packages, read-only. */
  packages: "/run/packages",
  /** The folder of the filtering proxy's socket. */
  proxy: "/run/proxy",
  tmp: "/tmp",
};

export interface LocalJailOptions {
  isolation: Isolation;
  /** Folders of the interpreter: prefix, base prefix, and others that it reports. Mounted at their own paths. */
  environmentPaths: string[];
  /** The interpreter, for PATH and the forwarder. Absent: bash without an environment. */
  python?: string | undefined;
  /** Cellwright's Python files: prelude, boot, … Mounted at their own paths. */
  supportPaths?: string[];
  workspaceDir: string;
  /** Mounted at its own path: the user's folder (`--workspace`). Otherwise at `/workspace`. */
  workspaceInPlace?: boolean;
  /** Mounted at `/workspace/<name>` instead, so that the path identifies the session. */
  workspaceName?: string | undefined;
  socketsDir?: string | undefined;
  overlayDir?: string | undefined;
  /** Its own folder for temporary files; required without namespaces, where it cannot have its own /tmp. */
  tmpDir?: string | undefined;
  allowRead?: string[];
  allowWrite?: string[];
  /** Read-only, although below a writable folder. */
  protectedPaths?: string[] | undefined;
  /** Protected paths below writable folders, existing or not: host programs execute or obey files there. */
  protectedRoots?: Pick<ProtectedRoot, "root" | "paths">[] | undefined;
  /** Invisible, even if below an allowed folder: the data folder, other sessions. */
  hidden?: string[];
  /** `proxyDir`: only the folder with the filtering proxy's socket (see proxy.ts). */
  network?: "none" | "host" | { proxyDir: string };
  /** Additional variables; they override the defaults. */
  env?: Record<string, string>;
  tmpMb?: number;
}

const DEFAULT_TMP_MB = 512;

/** Provided by the jail itself; a mount over one of them would replace it. */
const ownFolders = ["/dev", "/proc", "/sys", "/run", "/tmp"];
/** Nothing can be mounted below these, either. */
const closedFolders = ["/dev", "/proc", "/sys"];

/** The path of the workspace in namespaces. */
function homeInside({ workspaceInPlace, workspaceDir, workspaceName }: LocalJailOptions): string {
  return workspaceInPlace ? resolve(workspaceDir) : join(inside.workspace, workspaceName ?? "");
}

/** The policy for a Python kernel or for bash. Depends on which paths exist. */
export async function localJail(options: LocalJailOptions): Promise<Jail> {
  const { isolation, network = "none", allowRead = [], allowWrite = [] } = options;
  const hasNamespaces = isolation.tier === "namespaces";
  if (!hasNamespaces && network === "host") throw refused("--allow-net=host needs namespaces, which do not work here.");
  const workspace = await realpath(options.workspaceDir);
  const proxyDir = typeof network === "object" ? network.proxyDir : undefined;
  const home = hasNamespaces ? homeInside(options) : workspace;
  const at = async (from: string | undefined, path: string): Promise<Mount[]> =>
    from === undefined ? [] : [hasNamespaces ? { from, at: path } : inPlace(await realpath(from))];
  const tmp = await at(options.tmpDir, inside.tmp);
  const sockets = await at(options.socketsDir, inside.sockets);
  const system = systemMounts({ network: network === "host", hasNamespaces });

  const writable = [{ from: workspace, at: home }, ...sockets, ...tmp, ...(await allowed("--allow-write", allowWrite))];
  const code = await mountsInPlace([
    ...options.environmentPaths,
    ...(options.supportPaths ?? []),
    ...(proxyDir === undefined ? [] : [jailHostDir]),
  ]);
  const hidden = (await mountsInPlace(options.hidden ?? [])).map((mount) => mount.from);
  const keptMounts = [...code, ...(await mountsInPlace([...ownProgramPaths(), ...(options.protectedPaths ?? [])]))];
  const obeyed = (options.protectedRoots ?? []).flatMap(({ root, paths }) => paths.map((path) => join(root, path)));
  const kept = [...keptMounts.map(({ from }) => from), ...(hasNamespaces ? [] : obeyed)];
  const shown = [...code, ...(await allowed("--allow-read", allowRead))];
  const readable = [
    ...system.readOnly,
    ...withoutCovered(shown, system.readOnly),
    ...(await at(options.overlayDir, inside.packages)),
    ...(await at(proxyDir, inside.proxy)),
  ];
  const mounts = hasNamespaces
    ? namespaceMounts({ readable, writable, kept, hidden })
    : await landlockMounts({ readable, writable, kept, hidden });
  const seesOthers = options.workspaceInPlace || allowRead.length > 0 || allowWrite.length > 0;
  const own = [
    ...(options.workspaceInPlace ? [] : [home]),
    ...sockets.map((mount) => mount.at),
    tmp[0]?.at ?? inside.tmp,
  ];
  return {
    isolation,
    ...mounts,
    symlinks: system.symlinks,
    ...((seesOthers || !hasNamespaces) && { ownFolders: own }),
    env: {
      ...ownEnv({ home, tmp: tmp[0]?.at ?? inside.tmp, ...options }),
      ...(proxyDir === undefined ? {} : proxyEnv),
      ...options.env,
    },
    workingDir: home,
    network: network === "host" ? "host" : "none",
    ...(proxyDir !== undefined && {
      proxy: {
        socket: `${hasNamespaces ? inside.proxy : await realpath(proxyDir)}/socket`,
        python: options.python ?? "/usr/bin/python3",
      },
    }),
    tmpMb: options.tmpMb ?? DEFAULT_TMP_MB,
  };
}

const inPlace = (path: string): Mount => ({ from: path, at: path });

interface MountPlan {
  readable: Mount[];
  writable: Mount[];
  /** Real paths that are read-only, wherever they are mounted; they need not exist. */
  kept: string[];
  /** Real paths that are invisible, unless they are mounted explicitly. */
  hidden: string[];
}

function namespaceMounts({
  readable,
  writable,
  kept,
  hidden,
}: MountPlan): Pick<Jail, "readOnly" | "readWrite" | "hidden"> {
  const guarded = guards(writable, { code: kept, hidden });
  const readOnly = [...readable, ...guarded.readOnly];
  return {
    readOnly: uniqueTargets(readOnly),
    readWrite: uniqueTargets([...writable, ...guarded.pins]),
    hidden: [...new Set([...readOnly, ...writable].flatMap((mount) => seenBelow(mount, hidden)))],
  };
}

/** Everything at its own path. A writable folder with exceptions is readable as a whole. */
async function landlockMounts({
  readable,
  writable,
  kept,
  hidden,
}: MountPlan): Promise<Pick<Jail, "readOnly" | "readWrite" | "guarded">> {
  const named = [...readable, ...writable].map(({ from }) => from);
  const unseen = hidden.filter((path) => !named.includes(path));
  const exceptions = [...kept, ...unseen];
  const folders = [...new Set(writable.map(({ from }) => from))];
  return {
    readOnly: await mountsAround([...readable, ...writable], unseen),
    readWrite: await mountsAround(writable, exceptions),
    guarded: guardedFolders(folders, exceptions),
  };
}

type OwnEnv = Pick<LocalJailOptions, "python" | "workspaceInPlace"> & { home: string; tmp: string };

function ownEnv({ home, tmp, python, workspaceInPlace }: OwnEnv): Record<string, string> {
  return {
    HOME: home,
    USER: "cellwright",
    LOGNAME: "cellwright",
    LANG: "C.UTF-8",
    PATH: [...(python ? [dirname(python)] : []), "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"].join(":"),
    SHELL: "/bin/bash",
    TERM: "dumb",
    TMPDIR: tmp,
    // Jupyter's packages warn without it.
    JUPYTER_PLATFORM_DIRS: "1",
    // The home is the workspace: caches and settings of programs go elsewhere.
    XDG_CACHE_HOME: `${tmp}/.cache`,
    XDG_CONFIG_HOME: `${tmp}/.config`,
    XDG_DATA_HOME: `${tmp}/.local/share`,
    XDG_STATE_HOME: `${tmp}/.local/state`,
    IPYTHONDIR: `${tmp}/.ipython`,
    MPLCONFIGDIR: `${tmp}/.config/matplotlib`,
    // Git fails if the system's settings exist but cannot be read, as without namespaces.
    GIT_CONFIG_NOSYSTEM: "1",
    // The home is the user's folder, where `.gitconfig` is protected.
    ...(workspaceInPlace && { GIT_CONFIG_GLOBAL: `${tmp}/.gitconfig` }),
    // Sessions may share a workspace: one must not leave code there that the next one runs at its start.
    PYTHONNOUSERSITE: "1",
  };
}

const proxyUrl = `http://127.0.0.1:${PROXY_PORT}`;
const proxyEnv: Record<string, string> = Object.fromEntries(
  Object.entries({ http_proxy: proxyUrl, https_proxy: proxyUrl, no_proxy: "localhost,127.0.0.1,::1" }).flatMap(
    ([name, value]) => [
      [name, value],
      [name.toUpperCase(), value],
    ],
  ),
);

/** Mounts of paths that the operator named. Throws if one does not exist, or would replace a folder of the jail. */
async function allowed(flag: string, paths: string[]): Promise<Mount[]> {
  const mounts: Mount[] = [];
  for (const path of paths.map((each) => resolve(each))) {
    if (path === "/" && flag === "--allow-read") {
      mounts.push(...(await topFolders()));
      continue;
    }
    const isOwn = path === "/" || ownFolders.includes(path) || closedFolders.some((own) => path.startsWith(`${own}/`));
    if (isOwn) throw refused(`${flag}=${path} is not possible: a jail has its own ${path}. Name the folders below it.`);
    const mount = await mountsInPlace([path]);
    if (mount.length === 0) throw refused(`${flag}=${path} does not exist.`);
    mounts.push(...mount);
  }
  return mounts;
}

function refused(message: string): CellwrightError {
  return new CellwrightError("kernel_start_failed", message, { hint: "Correct the flag and start Cellwright again." });
}

/** The paths of --allow-read that can be mounted. */
export async function readableRoots(paths: string[]): Promise<string[]> {
  return (await allowed("--allow-read", paths)).map(({ from }) => from);
}

/** The folders in `/`, without those that the jail provides itself. */
async function topFolders(): Promise<Mount[]> {
  const entries = await readdir("/", { withFileTypes: true });
  return entries
    .map((entry) => ({ isLink: entry.isSymbolicLink(), path: `/${entry.name}` }))
    .filter(({ isLink, path }) => !isLink && !ownFolders.includes(path))
    .map(({ path }) => ({ from: path, at: path }));
}

/** Leaves out what a system mount contains already. */
function withoutCovered(mounts: Mount[], system: Mount[]): Mount[] {
  return mounts.filter(({ from, at }) => from !== at || !system.some((mount) => `${at}/`.startsWith(`${mount.at}/`)));
}

/**
 * Read-only mounts for code that lies in a writable folder and also runs outside of jails: a change to it would escape
 * at the next start. A mount point cannot be renamed, but the folders above it could be renamed and replaced, so each
 * of them becomes a mount point as well (a pin).
 */
export function guards(writable: Mount[], { code, hidden }: { code: string[]; hidden: string[] }) {
  const readOnly: Mount[] = [];
  const pins: Mount[] = [];
  const guarded = [...code, ...hidden];
  for (const mount of writable) {
    const seenAt = (path: string): string => mount.at + path.slice(mount.from.length);
    const isBelow = (path: string): boolean => path.startsWith(`${mount.from}/`);
    readOnly.push(...code.filter(isBelow).map((path) => ({ from: path, at: seenAt(path) })));
    for (const path of guarded.filter(isBelow)) {
      for (let folder = dirname(path); folder !== mount.from; folder = dirname(folder)) {
        const isGuarded = guarded.some((other) => folder === other || folder.startsWith(`${other}/`));
        if (!isGuarded) pins.push({ from: folder, at: seenAt(folder) });
      }
    }
  }
  return { readOnly, pins };
}

/** These paths as seen through a mount. */
function seenBelow({ from, at }: Mount, paths: string[]): string[] {
  return paths.filter((path) => path.startsWith(`${from}/`)).map((path) => at + path.slice(from.length));
}

/** If two have the same target, the first one wins. */
function uniqueTargets(mounts: Mount[]): Mount[] {
  return [...new Map(mounts.toReversed().map((mount) => [mount.at, mount])).values()].reverse();
}
