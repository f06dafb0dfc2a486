import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { constants } from "node:os";
import type { Readable, Writable } from "node:stream";
import { childPid, INFO_FD, SECCOMP_FD } from "../../jail/bubblewrap.ts";
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
  readonly #jailed: boolean;
  #jailedPid: number | undefined;
  #killReason: string | undefined;

  constructor(child: ChildProcess, parts: { jailed: boolean; exited: Promise<Omit<ProcessExit, "reason">> }) {
    this.#child = child;
    this.#stdin = child.stdin as Writable;
    this.#stdout = child.stdout as Readable;
    this.#jailed = parts.jailed;
    this.exited = parts.exited.then((exit) => ({ ...exit, ...(this.#killReason && { reason: this.#killReason }) }));
  }

  /** The process that runs Deno, as seen from here; not bubblewrap's, which waits for it. */
  get pid(): number | undefined {
    return this.#jailed ? this.#jailedPid : this.#child.pid;
  }

  set jailedPid(pid: number | undefined) {
    this.#jailedPid = pid;
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
   * The first reason is the one that counts. Ending bubblewrap ends all that is in its jail, once it stands; before
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
  const child = spawn(launch.command, launch.args, {
    cwd: launch.workingDir,
    env: launch.env,
    detached: hasGroups,
    stdio: Array(launch.seccomp ? SECCOMP_FD + 1 : launch.jailed ? INFO_FD + 1 : 3).fill("pipe"),
  });
  let stderr = "";
  const exited = new Promise<Omit<ProcessExit, "reason">>((resolve) => {
    child.once("close", (code, signal) => {
      if (stderr) log.debug(`a kernel's stderr: ${stderr}`);
      resolve({ ...exitOf(code, signal), stderr });
    });
    child.once("error", (error) => resolve({ code: null, signal: null, stderr: error.message }));
  });
  const kernelProcess = new KernelProcess(child, { jailed: launch.jailed, exited });
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
  if (launch.seccomp) {
    const filter = child.stdio[SECCOMP_FD] as Writable;
    filter.on("error", () => {});
    filter.end(launch.seccomp);
  }
  if (launch.jailed) readPid(child.stdio[INFO_FD] as Readable, kernelProcess);
  void kernelProcess.send({ nonce, ...launch.start });
  return kernelProcess;
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

function readPid(info: Readable, kernelProcess: KernelProcess): void {
  let text = "";
  info.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
    kernelProcess.jailedPid = childPid(text);
  });
  info.on("error", () => {});
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
