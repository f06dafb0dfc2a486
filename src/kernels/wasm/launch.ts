import { join, parse } from "node:path";
import { bubblewrapArgs, SECCOMP_FD } from "../../jail/bubblewrap.ts";
import type { Jail, Mount } from "../../jail/jail.ts";
import { seccompFilter } from "../../jail/seccomp.ts";
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
  siteDir: string;
  imageDir?: string | undefined;
  /** Folders of the user's that code may read, by their real paths and as the user names them. */
  readable?: { from: string; at: string }[];
  denoDir: string;
  memoryMb: number;
  diskMb: number;
  /** The libraries Deno needs inside bubblewrap; without them, it runs without a jail. */
  jailLibraries?: string[] | undefined;
}

/** How a kernel's process is started, and the paths as it sees them. */
export interface Launch {
  command: string;
  args: string[];
  env: Record<string, string>;
  workingDir: string;
  jailed: boolean;
  /** The filter of system calls, to be written to `SECCOMP_FD`. */
  seccomp?: Uint8Array | undefined;
  start: Omit<StartCommand, "nonce">;
}

export function planLaunch(options: LaunchOptions): Launch {
  const { sources, jailLibraries } = options;
  const mounts: Mount[] = [];
  const seenAs = (from: string, name: string): string => {
    if (!jailLibraries) return from;
    const at = `${JAIL_ROOT}/${name}`;
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
    "--unstable-worker-options",
    `--v8-flags=${v8Flags(options.memoryMb)}`,
    supervisorFile,
  ];
  const diskBytes = options.diskMb * 1024 * 1024;
  const start = { pyodideDir, snapshotFile, workspaceDir, siteDir, imageDir, readable, diskBytes };
  if (!jailLibraries) {
    // A working directory that says nothing about the user: it is visible to user code.
    return { command: denoFile, args, env, workingDir: parse(denoFile).root, jailed: false, start };
  }
  const jail: Jail = {
    readOnly: [...jailLibraries.map((file) => ({ from: file, at: file })), ...readOnly],
    readWrite: mounts,
    env,
    workingDir: "/",
  };
  const seccomp = seccompFilter();
  const jailedArgs = bubblewrapArgs(jail, [denoFile, ...args], seccomp && { seccompFd: SECCOMP_FD });
  return {
    command: "bwrap",
    args: jailedArgs,
    env: { PATH: process.env.PATH ?? "" },
    workingDir: "/",
    jailed: true,
    seccomp,
    start,
  };
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
