import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { constants } from "node:os";
import { parse } from "node:path";
import type { Readable, Writable } from "node:stream";
import { programPid, spawnJailed } from "../../jail/spawn.ts";
import type { Log } from "../../log.ts";
import { Garbage } from "./garbage.ts";
import { type Command, MAX_LINE_BYTES, type Report } from "./host/frames.ts";
import { LineSplitter } from "./host/lines.ts";
import type { Launch } from "./launch.ts";

/** What is kept of the child's stderr: enough for Deno's last words. */
const MAX_STDERR_CHARS = 4_000;

export interface ProcessExit {
  /** Why we killed it, if we did. */
  reason?: string;
  code: number | null;
  signal: string | null;
  /** The end of what it wrote to stderr. */
  stderr: string;
}

/** A running kernel process: lines in, reports out, one end. User code in it can write anything to its stdout. */
export class KernelProcess {
  /** Resolves when the process is gone and everything it said has been reported. Never rejects. */
  readonly exited: Promise<ProcessExit>;
  readonly #child: ChildProcess;
  readonly #stdin: Writable;
  readonly #stdout: Readable;
  /** To be called once it speaks: the process that runs Deno, as seen from here, and not the one that waits for its jail. */
  readonly locate: () => Promise<number | undefined>;
  #killReason: string | undefined;

  constructor(
    child: ChildProcess,
    parts: { locate: () => Promise<number | undefined>; exited: Promise<Omit<ProcessExit, "reason">> },
  ) {
    this.#child = child;
    this.#stdin = child.stdin as Writable;
    this.#stdout = child.stdout as Readable;
    this.locate = parts.locate;
    this.exited = parts.exited.then((exit) => ({ ...exit, ...(this.#killReason && { reason: this.#killReason }) }));
  }

  /** Resolves when the line has left our process. */
  send(line: Command | object): Promise<void> {
    return new Promise((resolve) => this.#stdin.write(`${JSON.stringify(line)}\n`, () => resolve()));
  }

  /** Stops reading: the child is held back by its full pipe. */
  pause(): void {
    this.#stdout.pause();
  }

  resume(): void {
    this.#stdout.resume();
  }

  get paused(): boolean {
    return this.#stdout.isPaused();
  }

  /** Closes its input, upon which it leaves in peace. */
  end(): void {
    this.#stdin.end();
  }

  /**
   * The first reason is the one that counts. Ending the launcher ends all that is in its jail, once it stands; before
   * that its child would wait for it for ever, which is why the whole process group goes.
   */
  kill(reason: string): void {
    this.#killReason ??= reason;
    killGroup(this.#child);
    // A paused stream would never end, and the exit would not be seen.
    this.#stdout.resume();
  }
}

/** Lines of a kernel's own making that are logged; user code can write as many as it likes. */
const MAX_STRAYS = 20;

/** Starts a kernel's process. `report` is called with each line that carries the nonce, as parsed JSON. */
export function startProcess(launch: Launch, report: (report: Report) => void, log: Log): KernelProcess {
  const { child, locate } = start(launch);
  let stderr = "";
  const exited = new Promise<Omit<ProcessExit, "reason">>((resolve) => {
    child.once("close", (code, signal) => {
      if (stderr) log.debug(`a kernel's stderr: ${stderr}`);
      resolve({ ...exitOf(code, signal), stderr });
    });
    child.once("error", (error) => resolve({ code: null, signal: null, stderr: error.message }));
  });
  const kernelProcess = new KernelProcess(child, { locate, exited });
  // Writing to a child that has just died is no news: its exit is.
  child.stdin?.on("error", () => {});
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr = (stderr + text).slice(-MAX_STDERR_CHARS);
  });
  const nonce = randomBytes(16).toString("hex");
  const splitter = new LineSplitter(MAX_LINE_BYTES);
  const garbage = new Garbage();
  let strays = 0;
  child.stdout?.on("data", (chunk: Uint8Array) => {
    try {
      for (const line of splitter.push(chunk)) {
        garbage.note(line.length);
        const parsed = parseReport(line, nonce);
        if (parsed) report(parsed);
        else if (line && strays < MAX_STRAYS) {
          strays += 1;
          log.debug(`a kernel wrote a line of its own: ${line.slice(0, 200)}`);
        }
      }
    } catch (error) {
      kernelProcess.kill(`The kernel was ended: ${error instanceof Error ? error.message : error}.`);
    }
  });
  void kernelProcess.send({ nonce, ...launch.start });
  return kernelProcess;
}

function start({ command, env, jail }: Launch): { child: ChildProcess; locate: () => Promise<number | undefined> } {
  const stdio: "pipe"[] = ["pipe", "pipe", "pipe"];
  if (jail) {
    const { child, ids } = spawnJailed(jail, command, { stdio });
    return { child, locate: () => ids.then((found) => found && programPid(found.first)) };
  }
  const [program = "", ...args] = command;
  // A working directory that says nothing about the user: it is visible to user code.
  const child = spawn(program, args, { cwd: parse(program).root, env, detached: hasGroups, stdio });
  return { child, locate: async () => child.pid };
}

/** Whether a child can lead a process group of its own, to be killed with all of it. */
const hasGroups = process.platform !== "win32";

function killGroup(child: ChildProcess): void {
  const { pid, exitCode, signalCode } = child;
  if (pid === undefined || exitCode !== null || signalCode !== null) return;
  if (!hasGroups) return void child.kill("SIGKILL");
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It is gone already.
  }
}

function parseReport(line: string, nonce: string): Report | undefined {
  if (!line.startsWith(`${nonce} `)) return undefined;
  try {
    return JSON.parse(line.slice(nonce.length + 1));
  } catch {
    return undefined;
  }
}

/** Bubblewrap, like a shell, passes on a signal as 128 and its number. */
function exitOf(code: number | null, signal: string | null): { code: number | null; signal: string | null } {
  if (code === null || code <= 128) return { code, signal };
  const name = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
  return name ? { code: null, signal: name } : { code, signal };
}
