import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { constants } from "node:os";
import type { Readable, Writable } from "node:stream";
import type { Jail } from "../../jail/jail.ts";
import type { ProcessLimits } from "../../jail/limits.ts";
import { programPid, spawnJailed } from "../../jail/spawn.ts";
import { shellCommand } from "./driver.ts";
import { endMarked, MARK_VARIABLE } from "./strays.ts";

/** What is kept of what the shell itself says, outside of cells: enough for why it did not start. */
const MAX_WORDS_CHARS = 2_000;

export interface ShellLaunch {
  workspaceDir: string;
  /** The whole environment. In a jail, it comes on top of the jail's own. */
  env: Record<string, string>;
  jail?: Jail | undefined;
  limits?: ProcessLimits | undefined;
}

export interface ShellExit {
  /** Why we killed it, if we did. */
  reason?: string | undefined;
  code: number | null;
  signal: string | null;
}

export interface ShellProcess {
  /** Resolves when the shell and all that it started are gone. Never rejects. */
  readonly exited: Promise<ShellExit>;
  /** Gives it a line to read. */
  write(lines: string): void;
  /** To be called once it reads lines: finds out whom an interrupt has to reach. */
  locate(): Promise<void>;
  /** SIGINT to the shell and what it runs in the foreground. Jobs in the background ignore it. */
  interrupt(): void;
  /** Ends it all. The first reason is the one that counts. */
  kill(reason: string): void;
  /** The end of what the shell itself said. */
  words(): string;
}

export function startShell(launch: ShellLaunch): ShellProcess {
  const { jail } = launch;
  const mark = randomBytes(16).toString("hex");
  const env = { ...launch.env, [MARK_VARIABLE]: mark };
  const { child, firstPid } = jail
    ? spawnJailed({ ...jail, env: { ...jail.env, ...launch.env } }, shellCommand, {
        stdio: ["pipe", "ignore", "pipe"],
        limits: launch.limits,
      })
    : spawnFree(env, launch.workspaceDir);
  let words = "";
  let killReason: string | undefined;
  let group: number | undefined;
  const stdin = child.stdin as Writable;
  // Writing to a shell that has just ended is no news: its exit is.
  stdin.on("error", () => {});
  (child.stderr as Readable).setEncoding("utf8").on("data", (text: string) => {
    words = (words + text).slice(-MAX_WORDS_CHARS);
  });

  // Not "close": a job in the background may hold the shell's pipes.
  const ended = new Promise<Omit<ShellExit, "reason">>((resolve) => {
    child.once("exit", (code, signal) => resolve(exitOf(code, signal)));
    child.once("error", (error) => {
      words = error.message;
      resolve({ code: null, signal: null });
    });
  });
  const exited = ended.then(async (exit) => {
    if (!jail) {
      signalGroup(child.pid, "SIGKILL");
      await endMarked(mark);
    }
    return { ...exit, reason: killReason };
  });

  return {
    exited,
    write: (lines) => void stdin.write(lines),
    words: () => words.trim(),
    async locate() {
      const first = await firstPid;
      const shell = jail && first !== undefined ? await programPid(first) : first;
      group = shell === undefined ? undefined : await groupOf(shell);
    },
    interrupt: () => signalGroup(group, "SIGINT"),
    kill(reason) {
      killReason ??= reason;
      void end(child, jail ? firstPid : Promise.resolve(undefined));
    },
  };
}

/** With no jail: the leader of a process group of its own. */
function spawnFree(env: Record<string, string>, cwd: string) {
  const [command = "", ...args] = shellCommand;
  const child = spawn(command, args, { cwd, env, detached: true, stdio: ["pipe", "ignore", "pipe"] });
  return { child, firstPid: Promise.resolve(child.pid) };
}

/** With a jail's first process all that is in it ends, before bubblewrap says so. Without one the group goes. */
async function end(child: ChildProcess, firstPid: Promise<number | undefined>): Promise<void> {
  const first = await Promise.race([
    firstPid,
    new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined))),
  ]);
  if (child.exitCode !== null || child.signalCode !== null) return;
  if (first === undefined) signalGroup(child.pid, "SIGKILL");
  else sendSignal(first, "SIGKILL");
}

function signalGroup(leader: number | undefined, signal: NodeJS.Signals): void {
  if (leader !== undefined) sendSignal(-leader, signal);
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It is gone already.
  }
}

/** The process group of a process, as seen from here; where the system does not tell, it leads its own. */
async function groupOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "latin1").catch(() => "");
  // The program's name, in brackets, may hold anything; after it come state, parent and group.
  const group = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[2]);
  return group > 1 ? group : pid;
}

/** Bubblewrap, like a shell, passes on a signal as 128 and its number. */
function exitOf(code: number | null, signal: string | null): Omit<ShellExit, "reason"> {
  const passedOn = code === null ? undefined : signalName(code);
  return passedOn ? { code: null, signal: passedOn } : { code, signal };
}

/** The signal behind an exit code above 128. */
export function signalName(code: number): string | undefined {
  return code > 128 ? Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0] : undefined;
}
