import { existsSync, realpathSync } from "node:fs";
import { join } from "node:path";
import type { Isolation, Jail, Mount } from "../../isolation/jail.ts";
import { guards } from "../../isolation/local-jail.ts";
import { guardedFolders } from "../../isolation/mounts/landlock.ts";
import type { StartCommand } from "./deno/frames.ts";
import type { Readable } from "./readable.ts";
import type { Sources } from "./sources.ts";

/** JavaScript heap of each isolate. Does not include Python's memory. */
export const OLD_SPACE_MB = 256;
const PAGES_PER_MB = 16;
/**
 * Stack of each thread, and of each call into Python, which has its own stack. With V8's default of 1 MB, a recursion
 * through C, such as a `__repr__` that calls repr(), crashes the interpreter before Python's limit of 1000 raises a
 * RecursionError. Must be below the main thread's 8 MB, and below 4 MB, above which V8 does not reuse stacks.
 */
const STACK_KB = 3_900;
const THREAD_STACK_BYTES = 16 * 1024 * 1024;

/** Root of a jailed kernel's files. Not below `/workspace`: NODEFS confuses real and virtual paths that are equal. */
const JAIL_ROOT = "/cell";

export interface LaunchOptions {
  sources: Sources;
  snapshotFile: string;
  workspaceDir: string;
  /** Relative paths in the workspace that code may only read, existing or not. In a jail, existing ones are mounts. */
  readOnlyPaths?: string[];
  /** For Landlock, which has no mounts: the real paths around the read-only ones. */
  writablePaths?: string[];
  siteDir: string;
  imageDir?: string | undefined;
  /** User folders that code may read. */
  readable?: Readable[];
  denoDir: string;
  memoryMb: number;
  diskMb: number;
  /** Absent: Deno runs without a jail. */
  isolation?: DenoIsolation | undefined;
}

export interface DenoIsolation extends Isolation {
  /** The shared libraries that Deno needs in its jail. */
  libraries: string[];
}

/** The command that starts a kernel's process, and the paths as that process sees them. */
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
    // Landlock grants do not apply through a link, such as a data folder that is a link.
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
    ...runArgs({
      read: [
        ...[pyodideDir, snapshotFile, hostDir, siteDir, workspaceDir, imageDir ?? []].flat(),
        ...readable.map(({ root }) => root),
      ],
      write: [workspaceDir],
    }),
    ...(readOnlyPaths.length > 0
      ? [`--deny-write=${pathList(readOnlyPaths.map((path) => join(workspaceDir, path)))}`]
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
  const hasNamespaces = isolation.tier === "namespaces";
  const writable = hasNamespaces ? [...mounts, ...kept.pins] : [...(options.writablePaths ?? []), denoDir].map(inPlace);
  const jail: Jail = {
    isolation: how,
    readOnly: [...libraries.map(inPlace), ...readOnly, ...(hasNamespaces ? kept.readOnly : [inPlace(workspaceDir)])],
    readWrite: writable,
    ...(!hasNamespaces && {
      guarded: guardedFolders(
        [workspaceDir],
        readOnlyPaths.map((path) => join(workspaceDir, path)),
      ),
    }),
    // Deno makes no connections; this keeps sockets in the user's folders out of reach.
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
    // The worker collects the garbage of its start, which V8 would otherwise keep in an idle kernel.
    "--expose-gc",
    `--stack-size=${STACK_KB}`,
    `--wasm-stack-switching-stack-size=${STACK_KB}`,
  ].join(",");
}

/** Flags for Deno: no prompts, no downloads, no configuration, and all that it may read and write. */
export function runArgs({ read, write }: { read: string[]; write: string[] }): string[] {
  return [
    "run",
    "--no-prompt",
    "--no-config",
    "--no-remote",
    "--no-npm",
    "--no-lock",
    "--cached-only",
    `--allow-read=${pathList(read)}`,
    `--allow-write=${pathList(write)}`,
  ];
}

export function denoEnv(denoDir: string): Record<string, string> {
  return { DENO_DIR: denoDir, NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1", RUST_MIN_STACK: String(THREAD_STACK_BYTES) };
}

/** Deno's path lists escape a comma by doubling it. */
function pathList(paths: string[]): string {
  return paths.map((path) => path.replaceAll(",", ",,")).join(",");
}
