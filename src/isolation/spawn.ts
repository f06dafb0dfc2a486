import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { kill } from "../process/kill.ts";
import { isAlive, startTimeOf } from "../process/process-life.ts";
import { bubblewrapArgs, childPid } from "./bubblewrap.ts";
import { jailHostDir } from "./fork-jail.ts";
import { type Jail, PROXY_PORT } from "./jail.ts";
import type { ProcessLimits } from "./limits/limits.ts";
import { bubblewrapFilter, isGated, jailRequest } from "./policy.ts";
import { childrenOf } from "./processes.ts";

export interface SpawnOptions {
  /** As for `spawn`; the program in the jail gets the same descriptors. */
  stdio: Exclude<StdioOptions, string>;
  limits?: ProcessLimits | undefined;
  /** The jail outlives this process. */
  survives?: boolean;
}

export interface JailedProcess {
  /** The launcher, which waits for the jail. Exits like the program: 128 + n for a signal. Never send it SIGINT. */
  child: ChildProcess;
  /** Resolves shortly after the start; undefined if the start failed. */
  ids: Promise<JailIds | undefined>;
}

/** Host pids of a jail. */
export interface JailIds {
  /** SIGKILL to it ends the whole jail. */
  ending: number;
  /** The reaper: parent of the program, adopts orphans. */
  first: number;
}

/** Starts a program in a jail, with a reaper as the jail's first process and a seccomp filter. */
export function spawnJailed(jail: Jail, command: string[], options: SpawnOptions): JailedProcess {
  const { launcher, gateLauncher } = jail.isolation;
  const { kind, program } = (isGated(jail) && gateLauncher) || launcher;
  return kind === "bubblewrap"
    ? withBubblewrap(program, jail, command, options)
    : withPython(program, jail, command, options);
}

/**
 * Bubblewrap needs `--die-with-parent`: without it, the reaper would wait for background processes after the program
 * has ended. So a jail that outlives this process gets a shell as its parent, which does so, too.
 */
const WAITING_SHELL = '"$@"; exit $?';

function withBubblewrap(bwrap: string, jail: Jail, command: string[], options: SpawnOptions): JailedProcess {
  const { stdio, limits, survives = false } = options;
  const infoFd = stdio.length;
  const [argsFd, seccompFd] = [infoFd + 1, infoFd + 2];
  const { proxy } = jail;
  const forwarder = join(jailHostDir, "forward.py");
  const forwarded = proxy ? [proxy.python, forwarder, proxy.socket, String(PROXY_PORT), "--", ...command] : command;
  const limited = limits ? insideLimits(limits, forwarded) : forwarded;
  const settings = bubblewrapArgs(jail, { infoFd, seccompFd });
  const filter = bubblewrapFilter(jail);
  // Not on the command line, which every user of the machine can read: the environment may contain secrets.
  const bubblewrap = [bwrap, "--args", String(argsFd), "--", ...limited];
  const parented = survives ? ["/bin/sh", "-c", WAITING_SHELL, "sh", ...bubblewrap] : bubblewrap;
  const [program = "", ...args] = limits ? withLimits(limits, parented) : parented;
  const child = spawn(program, args, {
    cwd: "/",
    env: {},
    detached: true,
    stdio: [...stdio, "pipe", "pipe", "pipe"],
  });
  send(child.stdio[argsFd], settings.map((arg) => `${arg}\0`).join(""));
  send(child.stdio[seccompFd], filter);
  const first = readPid(child, child.stdio[infoFd] as Readable | null);
  // Bubblewrap's jail ends with its first process, even if bubblewrap is gone.
  return { child, ids: first.then((pid) => (pid === undefined ? undefined : { ending: pid, first: pid })) };
}

/** No site packages, no user settings: only the standard library and our files run outside the jail. */
const LAUNCH_FLAGS = ["-I", "-S", "-B"];

function withPython(python: string, jail: Jail, command: string[], options: SpawnOptions): JailedProcess {
  const { stdio, limits, survives = false } = options;
  const infoFd = stdio.length;
  const requestFd = infoFd + 1;
  const script = join(jailHostDir, "launch.py");
  const args = [...LAUNCH_FLAGS, script, String(requestFd), String(infoFd), ...command];
  const child = spawn(python, args, {
    cwd: "/",
    env: {},
    detached: true,
    stdio: [...stdio, "pipe", "pipe"],
  });
  const policy = jailRequest(jail);
  const request = { policy, limits, descriptors: stdio.length, dieWithParent: !survives };
  send(child.stdio[requestFd], JSON.stringify(request));
  const { pid } = child;
  const first = readPid(child, child.stdio[infoFd] as Readable | null);
  // The supervisor must be killed: without a pid namespace, killing the first process leaves the others.
  const ids = first.then((found) =>
    found === undefined || pid === undefined ? undefined : { ending: pid, first: found },
  );
  return { child, ids };
}

/** Kills a jail with all its processes, at any time after its start. */
export function killJailed({ child, ids }: JailedProcess): void {
  child.kill("SIGKILL");
  // Killing the launcher ends the jail, unless the launcher was still setting it up.
  void ids.then((found) => found && child.exitCode === null && kill(found.ending));
}

function send(pipe: unknown, content: string | Uint8Array): void {
  const writable = pipe as Writable | null | undefined;
  // The launcher may exit before it has read this; its exit status reports that.
  writable?.on("error", () => {});
  writable?.end(content);
}

/** Interval of looks for the program: bubblewrap reports its first process a little earlier. */
const PROGRAM_LOOK_MS = 5;

/** Host pid of the program in the jail (not bubblewrap, not the reaper), to send SIGINT to. Undefined if it has ended. */
export async function programPid(firstPid: number): Promise<number | undefined> {
  const start = await startTimeOf(firstPid);
  while (start !== undefined && (await isAlive(firstPid, start))) {
    const [program] = await childrenOf(firstPid);
    if (program !== undefined) return program;
    await pause(PROGRAM_LOOK_MS);
  }
  return undefined;
}

function readPid(child: ChildProcess, info: Readable | null): Promise<number | undefined> {
  return new Promise((resolve) => {
    let text = "";
    child.once("error", () => resolve(undefined));
    child.once("exit", () => resolve(childPid(text)));
    info?.on("error", () => {});
    info?.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      const pid = childPid(text);
      if (pid !== undefined) resolve(pid);
    });
  });
}

/**
 * The command line that runs a program with rlimits but without a jail; the cgroup limits the number of processes. `sh`
 * sets its own limits and execs the program. Units are kB, for file sizes 512-byte blocks.
 */
export function withLimits(limits: ProcessLimits, command: string[]): string[] {
  const { procsFiles, dataMb, addressSpaceMb, fileSizeMb, openFiles } = limits;
  const script = [
    'while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift',
    "ulimit -c 0",
    `ulimit -f ${fileSizeMb * 2048}`,
    `ulimit -n ${openFiles} 2>/dev/null`,
    ...(dataMb === undefined ? [] : [`ulimit -d ${(dataMb + OWN_MB) * 1024}`]),
    ...(addressSpaceMb === undefined ? [] : [`ulimit -v ${(addressSpaceMb + OWN_ADDRESSES_MB) * 1024}`]),
    'exec "$@"',
  ].join("\n");
  return ["/bin/sh", "-c", script, "sh", ...procsFiles, "--", ...command];
}

/** Use of an idle interpreter: private memory, and address space including libraries. */
const OWN_MB = 128;
const OWN_ADDRESSES_MB = 768;

/** Processes are counted per user namespace, so this limit must be set inside. */
function insideLimits(limits: ProcessLimits, command: string[]): string[] {
  // dash and busybox call it -p, bash -u. Fails if it is already lower, which is fine.
  const script = `ulimit -p ${limits.processes} 2>/dev/null || ulimit -u ${limits.processes} 2>/dev/null\nexec "$@"`;
  return ["/bin/sh", "-c", script, "sh", ...command];
}
