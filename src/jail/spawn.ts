import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { bubblewrapArgs, childPid } from "./bubblewrap.ts";
import { jailHostDir } from "./fork-jail.ts";
import { type Jail, PROXY_PORT } from "./jail.ts";
import type { ProcessLimits } from "./limits.ts";
import { bubblewrapFilter, isGated, jailRequest } from "./policy.ts";
import { childrenOf } from "./processes.ts";

export interface SpawnOptions {
  /** For descriptors 0, 1, 2 and on, as `spawn` takes them; the program in the jail gets the same ones. */
  stdio: Exclude<StdioOptions, string>;
  limits?: ProcessLimits | undefined;
  /** Whether the jail goes on when this process is gone. */
  survives?: boolean;
}

export interface JailedProcess {
  /** What started the jail and waits for it. Its exit is the program's: 128 + n for a signal. Never send it SIGINT. */
  child: ChildProcess;
  /** Known a moment after the start. Undefined: no start. */
  ids: Promise<JailIds | undefined>;
}

/** Processes of a jail, as seen from here. */
export interface JailIds {
  /** With SIGKILL to it, all that is inside ends. */
  ending: number;
  /** The parent of the program: waits for what loses its parent inside. */
  first: number;
}

/** Starts a program in a jail, with a reaper as the jail's first process and the filter of system calls. */
export function spawnJailed(jail: Jail, command: string[], options: SpawnOptions): JailedProcess {
  const { launcher, judgingLauncher } = jail.isolation;
  const { kind, program } = (isGated(jail) && judgingLauncher) || launcher;
  return kind === "bubblewrap"
    ? withBubblewrap(program, jail, command, options)
    : withPython(program, jail, command, options);
}

/**
 * A jail ends with the process that started it, and only so does everything in it end with its program: the reaper would
 * wait for all others. So one that is to survive us is started by a shell that does.
 */
const STAY = '"$@"; exit $?';

function withBubblewrap(bwrap: string, jail: Jail, command: string[], options: SpawnOptions): JailedProcess {
  const { stdio, limits, survives = false } = options;
  const filter = bubblewrapFilter(jail);
  const infoFd = stdio.length;
  const argsFd = infoFd + 1;
  const seccompFd = filter && infoFd + 2;
  const { proxy } = jail;
  const forwarded = proxy ? [proxy.python, proxy.script, proxy.socket, String(PROXY_PORT), "--", ...command] : command;
  const limited = limits ? insideLimits(limits, forwarded) : forwarded;
  const walls = bubblewrapArgs(jail, [], { infoFd, seccompFd, reaper: true }).slice(0, -1);
  // Not on the command line, which everybody on the machine can read: the environment may have secrets in it.
  const bubblewrap = [bwrap, "--args", String(argsFd), "--", ...limited];
  const parented = survives ? ["/bin/sh", "-c", STAY, "sh", ...bubblewrap] : bubblewrap;
  const [program = "", ...args] = limits ? withLimits(limits, parented) : parented;
  const child = spawn(program, args, {
    cwd: "/",
    env: {},
    detached: true,
    stdio: [...stdio, "pipe", "pipe", ...(filter ? ["pipe" as const] : [])],
  });
  send(child.stdio[argsFd], walls.map((arg) => `${arg}\0`).join(""));
  if (seccompFd !== undefined && filter) send(child.stdio[seccompFd], filter);
  const first = readPid(child, child.stdio[infoFd] as Readable | null);
  // Bubblewrap's jail ends with its first process, whatever became of bubblewrap.
  return { child, ids: first.then((pid) => (pid === undefined ? undefined : { ending: pid, first: pid })) };
}

/** Without site packages and the user's settings: nothing runs outside the jail but Python's own library and ours. */
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
  // Its supervisor is the one to end: without a pid namespace the first process takes no others with it.
  const ids = first.then((found) =>
    found === undefined || pid === undefined ? undefined : { ending: pid, first: found },
  );
  return { child, ids };
}

function send(pipe: unknown, content: string | Uint8Array): void {
  const writable = pipe as Writable | null | undefined;
  // It may be gone before it has read it, which its exit tells.
  writable?.on("error", () => {});
  writable?.end(content);
}

/** The program in the jail (not bubblewrap, not the reaper), as seen from here, to send SIGINT to. */
export async function programPid(firstPid: number): Promise<number | undefined> {
  const children = await childrenOf(firstPid);
  return children[0];
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
 * The command line that runs a program within limits but without a jail; the number of processes is then left to the
 * cgroup. `sh` sets the limits of itself and becomes the program. In kB, but for files in blocks of 512 bytes.
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

/** What an interpreter has before it has done anything; with its libraries' addresses, much more than that. */
const OWN_MB = 128;
const OWN_ADDRESSES_MB = 768;

/** The number of processes is counted within the user namespace in which it is limited: this one must be set inside. */
function insideLimits(limits: ProcessLimits, command: string[]): string[] {
  // dash and busybox call it -p, bash -u; where it is already lower, it stays.
  const script = `ulimit -p ${limits.processes} 2>/dev/null || ulimit -u ${limits.processes} 2>/dev/null\nexec "$@"`;
  return ["/bin/sh", "-c", script, "sh", ...command];
}
