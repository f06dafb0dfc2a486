import { readdir, realpath } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { CellwrightError } from "../errors.ts";
import { jailHostDir } from "./fork-jail.ts";
import { type Isolation, type Jail, type Mount, PROXY_PORT } from "./jail.ts";
import { guardedFolders, mountsAround } from "./landlock.ts";
import { ownProgramPaths } from "./own-program.ts";
import type { ProtectedRoot } from "./protected-roots.ts";
import { systemMounts } from "./system-mounts.ts";

/** Where a kernel in namespaces finds its sockets and connection file. */
export const SOCKETS_DIR = "/run/cellwright";

/** Where a jailed Python kernel or bash finds its things, where namespaces let it see them elsewhere. */
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
  /** What the interpreter needs: prefix, base prefix, and what else it says. Seen at their own paths. */
  environmentPaths: string[];
  /** The interpreter, for PATH and the forwarder. Absent: bash without an environment. */
  python?: string | undefined;
  /** Our own Python files: prelude, boot, … Seen at their own paths. */
  supportPaths?: string[];
  workspaceDir: string;
  /** Seen at its own path: the user's folder (`--workspace`). Otherwise at `/workspace`. */
  workspaceInPlace?: boolean;
  socketsDir?: string | undefined;
  overlayDir?: string | undefined;
  /** A folder of its own for temporary files, where it cannot have a /tmp in memory: needed without namespaces. */
  tmpDir?: string | undefined;
  allowRead?: string[];
  allowWrite?: string[];
  /** Below what may be written, and only read all the same. */
  protectedPaths?: string[] | undefined;
  /** Where hosts obey what is written: those of the paths above that are relative to a writable folder, or missing. */
  protectedRoots?: Pick<ProtectedRoot, "root" | "paths">[] | undefined;
  /** Never seen, though below something allowed: the data folder, other sessions. */
  hidden?: string[];
  /** `proxyDir`: only the folder with the filtering proxy's socket (see proxy.ts). */
  network?: "none" | "host" | { proxyDir: string };
  /** What is passed on or set for the kernel; it beats what is set here. */
  env?: Record<string, string>;
  tmpMb?: number;
}

const DEFAULT_TMP_MB = 512;

/** The jail's own; mounting over them would take them away. */
const ownFolders = ["/dev", "/proc", "/sys", "/run", "/tmp"];
/** Of these, what lies below is the jail's own, too. */
const closedFolders = ["/dev", "/proc", "/sys"];

/** The policy for a Python kernel or for bash. Looks at the file system for what is there. */
export async function localJail(options: LocalJailOptions): Promise<Jail> {
  const { isolation, network = "none", allowRead = [], allowWrite = [] } = options;
  const isApart = isolation.tier === "namespaces";
  if (!isApart && network === "host") throw refused("--allow-net=host needs namespaces, which do not work here.");
  const workspace = await realpath(options.workspaceDir);
  const proxyDir = typeof network === "object" ? network.proxyDir : undefined;
  const home =
    options.workspaceInPlace && isApart ? resolve(options.workspaceDir) : isApart ? inside.workspace : workspace;
  const at = async (from: string | undefined, path: string): Promise<Mount[]> =>
    from === undefined ? [] : [isApart ? { from, at: path } : inPlace(await realpath(from))];
  const tmp = await at(options.tmpDir, inside.tmp);
  const sockets = await at(options.socketsDir, inside.sockets);
  const system = systemMounts({ network: network === "host", isApart });

  const writable = [{ from: workspace, at: home }, ...sockets, ...tmp, ...(await allowed("--allow-write", allowWrite))];
  const code = await present([
    ...options.environmentPaths,
    ...(options.supportPaths ?? []),
    ...(proxyDir === undefined ? [] : [jailHostDir]),
  ]);
  const hidden = (await present(options.hidden ?? [])).map((mount) => mount.from);
  const keptMounts = [...code, ...(await present([...ownProgramPaths(), ...(options.protectedPaths ?? [])]))];
  const obeyed = (options.protectedRoots ?? []).flatMap(({ root, paths }) => paths.map((path) => join(root, path)));
  const kept = [...keptMounts.map(({ from }) => from), ...(isApart ? [] : obeyed)];
  const shown = [...code, ...(await allowed("--allow-read", allowRead))];
  const readable = [
    ...system.readOnly,
    ...withoutCovered(shown, system.readOnly),
    ...(await at(options.overlayDir, inside.packages)),
    ...(await at(proxyDir, inside.proxy)),
  ];
  const mounts = isApart
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
    ...((seesOthers || !isApart) && { ownFolders: own }),
    env: {
      ...ownEnv({ home, tmp: tmp[0]?.at ?? inside.tmp, ...options }),
      ...(proxyDir === undefined ? {} : proxyEnv),
      ...options.env,
    },
    workingDir: home,
    network: network === "host" ? "host" : "none",
    ...(proxyDir !== undefined && {
      proxy: {
        socket: `${isApart ? inside.proxy : await realpath(proxyDir)}/socket`,
        python: options.python ?? "/usr/bin/python3",
        script: join(jailHostDir, "forward.py"),
      },
    }),
    tmpMb: options.tmpMb ?? DEFAULT_TMP_MB,
  };
}

const inPlace = (path: string): Mount => ({ from: path, at: path });

interface Wanted {
  readable: Mount[];
  writable: Mount[];
  /** Real paths that stay as they are, wherever they are seen; not all of them need exist. */
  kept: string[];
  /** Real paths that are not seen at all, but for what is named itself. */
  hidden: string[];
}

function namespaceMounts({
  readable,
  writable,
  kept,
  hidden,
}: Wanted): Pick<Jail, "readOnly" | "readWrite" | "hidden"> {
  const guarded = guards(writable, { code: kept, hidden });
  const readOnly = [...readable, ...guarded.readOnly];
  return {
    readOnly: oncePerPlace(readOnly),
    readWrite: oncePerPlace([...writable, ...guarded.pins]),
    hidden: [...new Set([...readOnly, ...writable].flatMap((mount) => seenBelow(mount, hidden)))],
  };
}

/** All at their own places. What is writable with exceptions is readable as a whole. */
async function landlockMounts({
  readable,
  writable,
  kept,
  hidden,
}: Wanted): Promise<Pick<Jail, "readOnly" | "readWrite" | "guarded">> {
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
    // Jupyter's own packages warn without it.
    JUPYTER_PLATFORM_DIRS: "1",
    // The home is the workspace, and not the place for what programs keep for themselves.
    XDG_CACHE_HOME: `${tmp}/.cache`,
    XDG_CONFIG_HOME: `${tmp}/.config`,
    XDG_DATA_HOME: `${tmp}/.local/share`,
    XDG_STATE_HOME: `${tmp}/.local/state`,
    IPYTHONDIR: `${tmp}/.ipython`,
    MPLCONFIGDIR: `${tmp}/.config/matplotlib`,
    // Git gives up when the machine's settings exist and cannot be read, as without namespaces.
    GIT_CONFIG_NOSYSTEM: "1",
    // The user's folder is the home, and `.gitconfig` in it is protected.
    ...(workspaceInPlace && { GIT_CONFIG_GLOBAL: `${tmp}/.gitconfig` }),
    // Sessions may share a workspace: none leaves code there that the next one's start would run.
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

/** Paths that a user named. One that is not there, or that would cover the jail's own, is a mistake worth saying. */
async function allowed(flag: string, paths: string[]): Promise<Mount[]> {
  const mounts: Mount[] = [];
  for (const path of paths.map((each) => resolve(each))) {
    if (path === "/" && flag === "--allow-read") {
      mounts.push(...(await topFolders()));
      continue;
    }
    const isOwn = path === "/" || ownFolders.includes(path) || closedFolders.some((own) => path.startsWith(`${own}/`));
    if (isOwn)
      throw refused(`${flag}=${path} cannot be given to code in a jail, which has its own. Name what is below.`);
    const mount = await present([path]);
    if (mount.length === 0) throw refused(`${flag}=${path} does not exist.`);
    mounts.push(...mount);
  }
  return mounts;
}

function refused(message: string): CellwrightError {
  return new CellwrightError("kernel_start_failed", message, { hint: "Correct the flag and start Cellwright again." });
}

/** What --allow-read names, as far as it can be shown. */
export async function readableRoots(paths: string[]): Promise<string[]> {
  return (await allowed("--allow-read", paths)).map(({ from }) => from);
}

/** All that can be shown of `/` without covering what is the jail's own. */
async function topFolders(): Promise<Mount[]> {
  const entries = await readdir("/", { withFileTypes: true });
  return entries
    .map((entry) => ({ isLink: entry.isSymbolicLink(), path: `/${entry.name}` }))
    .filter(({ isLink, path }) => !isLink && !ownFolders.includes(path))
    .map(({ path }) => ({ from: path, at: path }));
}

/** Each at the path it is known by, and at the one where it really is, which things in it may speak of. */
async function present(paths: string[]): Promise<Mount[]> {
  const mounts: Mount[] = [];
  for (const path of new Set(paths.map((each) => resolve(each)))) {
    const real = await realpath(path).catch(() => undefined);
    if (real === undefined) continue;
    mounts.push({ from: real, at: path });
    if (real !== path) mounts.push({ from: real, at: real });
  }
  return mounts;
}

/** A folder of the system that is shown already needs no second mount. */
function withoutCovered(mounts: Mount[], system: Mount[]): Mount[] {
  return mounts.filter(({ from, at }) => from !== at || !system.some((mount) => isAbove(at)(mount) || mount.at === at));
}

/**
 * Code that also runs outside, where it lies in a folder that the jail may write to, stays as it is: what a jailed
 * process changed there would run without a jail at the next start. A mount point cannot be renamed, but a folder above
 * it can, with another put in its place: so each folder in between becomes a mount point, too.
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

/** Where a mount would show these paths. */
function seenBelow({ from, at }: Mount, paths: string[]): string[] {
  return paths.filter((path) => path.startsWith(`${from}/`)).map((path) => at + path.slice(from.length));
}

/** The first one counts. */
function oncePerPlace(mounts: Mount[]): Mount[] {
  return [...new Map(mounts.toReversed().map((mount) => [mount.at, mount])).values()].reverse();
}

function isAbove(path: string): (mount: Mount) => boolean {
  return ({ at }) => path.startsWith(at === "/" ? "/" : `${at}/`);
}
