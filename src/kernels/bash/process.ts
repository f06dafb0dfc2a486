import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { decodeSignalExit } from "../../isolation/exit.ts";
import type { Jail } from "../../isolation/jail.ts";
import type { ProcessLimits } from "../../isolation/limits/limits.ts";
import { type JailIds, programPid, spawnJailed, withLimits } from "../../isolation/spawn.ts";
import { kill } from "../../process/kill.ts";
import { isAlive, type ProcessId, processId } from "../../process/process-life.ts";
import { shellCommand } from "../shell/driver.ts";
import { endMarked, MARK_VARIABLE } from "./strays.ts";

/** Limit of the shell's own output, outside of cells: enough to explain a failed start. */
const MAX_WORDS_CHARS = 2_000;

/** Timeout and interval of waiting for the end of a jail. */
const MAX_END_ROUNDS = 500;
const END_ROUND_MS = 5;

export interface ShellLaunch {
  workspaceDir: string;
  /** The whole environment; in a jail, added to the jail's own. */
  env: Record<string, string>;
  jail?: Jail | undefined;
  limits?: ProcessLimits | undefined;
}

export interface ShellExit {
  /** The reason, if it was killed by us. */
  reason?: string | undefined;
  code: number | null;
  signal: string | null;
}

export interface ShellProcess {
  /** Resolves when the shell and its descendants are gone. Never rejects. */
  readonly exited: Promise<ShellExit>;
  /** Writes lines to the shell's stdin. */
  write(lines: string): void;
  /**
   * To be called once the shell reads lines: finds the target of interrupts. Returns the host pid of the ancestor of
   * all its processes.
   */
  locate(): Promise<number | undefined>;
  /** SIGINT to the shell and its foreground processes. Background jobs ignore it. */
  interrupt(): void;
  /** Kills everything. The first reason wins. */
  kill(reason: string): void;
  /** The end of the shell's own output. */
  words(): string;
}

export function startShell(launch: ShellLaunch): ShellProcess {
  const { jail } = launch;
  const mark = randomBytes(16).toString("hex");
  const env = { TERM: "dumb", ...jail?.env, ...launch.env };
  const { child, ids } = jail
    ? spawnJailed({ ...jail, env }, shellCommand, {
        stdio: ["pipe", "ignore", "pipe"],
        limits: launch.limits,
      })
    : spawnFree({ ...launch, env: { ...env, [MARK_VARIABLE]: mark } });
  let words = "";
  let killReason: string | undefined;
  let group: number | undefined;
  const identified = ids.then((found) => found && Promise.all([processId(found.ending), processId(found.first)]));
  const stdin = child.stdin as Writable;
  // Ignored: a write fails if the shell has just ended, which its exit reports.
  stdin.on("error", () => {});
  (child.stderr as Readable).setEncoding("utf8").on("data", (text: string) => {
    words = (words + text).slice(-MAX_WORDS_CHARS);
  });

  // Not "close": a background job may hold the shell's pipes.
  const ended = new Promise<Omit<ShellExit, "reason">>((resolve) => {
    child.once("exit", (code, signal) => resolve(jail ? decodeSignalExit({ code, signal }) : { code, signal }));
    child.once("error", (error) => {
      words = error.message;
      resolve({ code: null, signal: null });
    });
  });
  const exited = ended.then(async (exit) => {
    if (jail) await endJail(identified);
    else {
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
      const found = await ids;
      const shell = jail && found ? await programPid(found.first) : found?.first;
      group = shell === undefined ? undefined : await groupOf(shell);
      return found?.ending;
    },
    interrupt: () => signalGroup(group, "SIGINT"),
    kill(reason) {
      killReason ??= reason;
      void end(child, jail ? ids : Promise.resolve(undefined));
    },
  };
}

/** Without a jail: the leader of its own process group. */
function spawnFree({ env, workspaceDir, limits }: ShellLaunch) {
  const [command = "", ...args] = limits ? withLimits(limits, shellCommand) : shellCommand;
  const child = spawn(command, args, { cwd: workspaceDir, env, detached: true, stdio: ["pipe", "ignore", "pipe"] });
  const ids = child.pid === undefined ? undefined : { ending: child.pid, first: child.pid };
  return { child, ids: Promise.resolve(ids) };
}

/** Killing a jail's first process ends the whole jail, before bubblewrap exits. Without a jail, kills the group. */
async function end(child: ChildProcess, ids: Promise<JailIds | undefined>): Promise<void> {
  const found = await Promise.race([ids, new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined)))]);
  if (child.exitCode !== null || child.signalCode !== null) return;
  if (found === undefined) signalGroup(child.pid, "SIGKILL");
  else kill(found.ending);
}

/**
 * Kills what is left of a jail and waits for its end. Bubblewrap exits before its jail has ended. Without a pid
 * namespace, it is the first process that ends the others when its supervisor was killed: it is gone last.
 */
async function endJail(identified: Promise<[ending: ProcessId, first: ProcessId] | undefined>): Promise<void> {
  const found = await identified;
  if (!found) return;
  const [ending, first] = found;
  for (let rounds = 0; rounds < MAX_END_ROUNDS; rounds += 1) {
    if (await isThere(ending)) kill(ending.pid);
    else if (!(await isThere(first))) return;
    await delay(END_ROUND_MS);
  }
}

async function isThere({ pid, start }: ProcessId): Promise<boolean> {
  return start !== undefined && isAlive(pid, start);
}

function signalGroup(leader: number | undefined, signal: NodeJS.Signals): void {
  if (leader !== undefined) kill(-leader, signal);
}

/** The process group of a process; if the system does not say, its own pid. */
async function groupOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "latin1").catch(() => "");
  // The program's name, in brackets, may contain anything; state, parent and group follow it.
  const group = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[2]);
  return group > 1 ? group : pid;
}
