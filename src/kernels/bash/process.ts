import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { constants } from "node:os";
import type { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type { Jail } from "../../jail/jail.ts";
import type { ProcessLimits } from "../../jail/limits.ts";
import { type JailIds, programPid, spawnJailed, withLimits } from "../../jail/spawn.ts";
import { isAlive, startOf } from "../../process-life.ts";
import { shellCommand } from "./driver.ts";
import { endMarked, MARK_VARIABLE } from "./strays.ts";

/** What is kept of what the shell itself says, outside of cells: enough for why it did not start. */
const MAX_WORDS_CHARS = 2_000;

/** How long, and in what steps, the end of a jail is waited for. */
const MAX_END_ROUNDS = 500;
const END_ROUND_MS = 5;

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
  /**
   * To be called once it reads lines: finds out whom an interrupt has to reach. Returns the process that all others are
   * below, as seen from here.
   */
  locate(): Promise<number | undefined>;
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
  const first = ids.then(async (found) => found && { pid: found.ending, start: await startOf(found.ending) });
  const stdin = child.stdin as Writable;
  // Writing to a shell that has just ended is no news: its exit is.
  stdin.on("error", () => {});
  (child.stderr as Readable).setEncoding("utf8").on("data", (text: string) => {
    words = (words + text).slice(-MAX_WORDS_CHARS);
  });

  // Not "close": a job in the background may hold the shell's pipes.
  const ended = new Promise<Omit<ShellExit, "reason">>((resolve) => {
    child.once("exit", (code, signal) => resolve(jail ? passedOn(code, signal) : { code, signal }));
    child.once("error", (error) => {
      words = error.message;
      resolve({ code: null, signal: null });
    });
  });
  const exited = ended.then(async (exit) => {
    if (jail) await endJail(first);
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

/** With no jail: the leader of a process group of its own. */
function spawnFree({ env, workspaceDir, limits }: ShellLaunch) {
  const [command = "", ...args] = limits ? withLimits(limits, shellCommand) : shellCommand;
  const child = spawn(command, args, { cwd: workspaceDir, env, detached: true, stdio: ["pipe", "ignore", "pipe"] });
  const ids = child.pid === undefined ? undefined : { ending: child.pid, first: child.pid };
  return { child, ids: Promise.resolve(ids) };
}

/** With a jail's first process all that is in it ends, before bubblewrap says so. Without one the group goes. */
async function end(child: ChildProcess, ids: Promise<JailIds | undefined>): Promise<void> {
  const found = await Promise.race([ids, new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined)))]);
  if (child.exitCode !== null || child.signalCode !== null) return;
  if (found === undefined) signalGroup(child.pid, "SIGKILL");
  else sendSignal(found.ending, "SIGKILL");
}

/** Bubblewrap leaves with the shell, and what is in the jail goes a moment later. */
async function endJail(first: Promise<{ pid: number; start: string | undefined } | undefined>): Promise<void> {
  const { pid, start } = (await first) ?? {};
  if (pid === undefined || start === undefined) return;
  for (let rounds = 0; rounds < MAX_END_ROUNDS && (await isAlive(pid, start)); rounds += 1) {
    sendSignal(pid, "SIGKILL");
    await delay(END_ROUND_MS);
  }
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
function passedOn(code: number | null, signal: string | null): Omit<ShellExit, "reason"> {
  const name = code === null ? undefined : signalName(code);
  return name ? { code: null, signal: name } : { code, signal };
}

/** The signal behind an exit code above 128. */
export function signalName(code: number): string | undefined {
  return code > 128 ? Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0] : undefined;
}
