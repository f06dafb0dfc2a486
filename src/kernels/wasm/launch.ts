import { existsSync, realpathSync } from "node:fs";
import { join } from "node:path";
import type { Isolation, Jail, Mount } from "../../jail/jail.ts";
import { guardedFolders } from "../../jail/landlock.ts";
import { guards } from "../../jail/local-jail.ts";
import type { StartCommand } from "./host/frames.ts";
import type { Sources } from "./sources.ts";

/** Heap of each JavaScript isolate in a kernel. Python's memory is not in it; a cell that builds in JavaScript is. */
export const OLD_SPACE_MB = 256;
const PAGES_PER_MB = 16;
/**
 * Stack of each thread, and of each call into Python, which has a stack of its own. With V8's default of 1 MB a
 * recursion through C, such as a `__repr__` that calls repr(), ends the interpreter before Python's limit of 1000 makes
 * it a RecursionError. Below the 8 MB that a main thread has, and below 4 MB, above which V8 does not reuse stacks.
 */
const STACK_KB = 3_900;
const THREAD_STACK_BYTES = 16 * 1024 * 1024;

/** Where a jailed kernel sees its files. Not below `/workspace`: NODEFS mixes up real and virtual paths that are equal. */
const JAIL_ROOT = "/cell";

export interface LaunchOptions {
  sources: Sources;
  snapshotFile: string;
  workspaceDir: string;
  /** Relative paths in the workspace that code may only read, existing or not. In a jail, those that exist are mounts. */
  readOnlyPaths?: string[];
  /** Where Landlock does what mounts cannot: what lies around them, by real paths. */
  writablePaths?: string[];
  siteDir: string;
  imageDir?: string | undefined;
  /** Folders of the user's that code may read, by their real paths and as the user names them. */
  readable?: { from: string; at: string }[];
  denoDir: string;
  memoryMb: number;
  diskMb: number;
  /** Without it, Deno runs without a jail. */
  isolation?: DenoIsolation | undefined;
}

export interface DenoIsolation extends Isolation {
  /** The libraries that Deno needs in its jail. */
  libraries: string[];
}

/** How a kernel's process is started, and the paths as it sees them. */
export interface Launch {
  command: string[];
  env: Record<string, string>;
  jail?: Jail | undefined;
  start: Omit<StartCommand, "nonce">;
}

export function planLaunch(options: LaunchOptions): Launch {
  const { sources, isolation, readOnlyPaths = [] } = options;
  const mounts: Mount[] = [];
  const seenAs = (path: string, name: string): string => {
    // Landlock grants nothing by way of a link, such as a data folder that lies elsewhere.
    const from = isolation?.tier === "landlock" ? realpathSync(path) : path;
    const at = isolation?.tier === "namespaces" ? `${JAIL_ROOT}/${name}` : from;
    mounts.push({ from, at });
    return at;
  };
  const denoFile = seenAs(sources.denoFile, "deno");
  const pyodideDir = seenAs(sources.pyodideDir, "pyodide");
  const hostDir = seenAs(sources.hostDir, "host");
  const snapshotFile = seenAs(options.snapshotFile, "snapshot");
  const siteDir = seenAs(options.siteDir, "site");
  const imageDir = options.imageDir && seenAs(options.imageDir, "image");
  const readable = (options.readable ?? []).map(({ from, at }, index) => ({
    root: seenAs(from, `readable/${index}`),
    at,
  }));
  const readOnly = mounts.splice(0);
  const workspaceDir = seenAs(options.workspaceDir, "files");
  const denoDir = seenAs(options.denoDir, "deno-dir");
  const supervisorFile = join(hostDir, sources.supervisorFile.slice(sources.hostDir.length));
  const env = denoEnv(denoDir);
  const args = [
    ...runArgs([
      ...[pyodideDir, snapshotFile, hostDir, siteDir, workspaceDir, imageDir ?? []].flat(),
      ...readable.map(({ root }) => root),
    ]),
    `--allow-write=${listed(workspaceDir)}`,
    ...(readOnlyPaths.length > 0
      ? [`--deny-write=${readOnlyPaths.map((path) => listed(join(workspaceDir, path))).join(",")}`]
      : []),
    "--unstable-worker-options",
    `--v8-flags=${v8Flags(options.memoryMb)}`,
    supervisorFile,
  ];
  const diskBytes = options.diskMb * 1024 * 1024;
  const start = { pyodideDir, snapshotFile, workspaceDir, siteDir, imageDir, readable, diskBytes };
  const command = [denoFile, ...args];
  if (!isolation) return { command, env, start };
  const { libraries, ...how } = isolation;
  const present = readOnlyPaths.map((path) => join(options.workspaceDir, path)).filter((path) => existsSync(path));
  const kept = guards([{ from: options.workspaceDir, at: workspaceDir }], { code: present, hidden: [] });
  const inPlace = (path: string): Mount => ({ from: path, at: path });
  const isApart = isolation.tier === "namespaces";
  const writable = isApart ? [...mounts, ...kept.pins] : [...(options.writablePaths ?? []), denoDir].map(inPlace);
  const jail: Jail = {
    isolation: how,
    readOnly: [...libraries.map(inPlace), ...readOnly, ...(isApart ? kept.readOnly : [inPlace(workspaceDir)])],
    readWrite: writable,
    ...(!isApart && {
      guarded: guardedFolders(
        [workspaceDir],
        readOnlyPaths.map((path) => join(workspaceDir, path)),
      ),
    }),
    // Deno connects to nothing; whatever sockets lie in folders of the user's stay out of reach.
    ...(readable.length > 0 && { ownFolders: [] }),
    env,
    workingDir: "/",
  };
  return { command, env, jail, start };
}

export function v8Flags(memoryMb: number): string {
  return [
    `--wasm-max-mem-pages=${memoryMb * PAGES_PER_MB}`,
    `--max-old-space-size=${OLD_SPACE_MB}`,
    // For the worker, which has much to throw away after its start and does little afterwards that would make V8 do so.
    "--expose-gc",
    `--stack-size=${STACK_KB}`,
    `--wasm-stack-switching-stack-size=${STACK_KB}`,
  ].join(",");
}

/** The flags with which Deno asks nobody, fetches nothing and reads no configuration; `read` lists all it may read. */
export function runArgs(read: string[]): string[] {
  return [
    "run",
    "--no-prompt",
    "--no-config",
    "--no-remote",
    "--no-npm",
    "--no-lock",
    "--cached-only",
    `--allow-read=${read.map(listed).join(",")}`,
  ];
}

export function denoEnv(denoDir: string): Record<string, string> {
  return { DENO_DIR: denoDir, NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1", RUST_MIN_STACK: String(THREAD_STACK_BYTES) };
}

/** In Deno's lists of paths, a comma within a path is written twice. */
function listed(path: string): string {
  return path.replaceAll(",", ",,");
}
