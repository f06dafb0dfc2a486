import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { parse } from "node:path";
import type { Readable, Writable } from "node:stream";
import { decodeSignalExit } from "../../isolation/exit.ts";
import { programPid, spawnJailed } from "../../isolation/spawn.ts";
import type { Log } from "../../log.ts";
import { hasGroups, killGroup } from "../../process/kill.ts";
import {
  type Command,
  formatCommand,
  MAX_LINE_BYTES,
  parseReport,
  type Report,
  type StartCommand,
} from "./deno/frames.ts";
import { LineSplitter } from "./deno/lines.ts";
import { Garbage } from "./garbage.ts";
import type { Launch } from "./launch.ts";

/** How much of the child's stderr is kept. */
const MAX_STDERR_CHARS = 4_000;

export interface ProcessExit {
  /** Why the server killed it, if it did. */
  reason?: string;
  code: number | null;
  signal: string | null;
  /** The end of its stderr. */
  stderr: string;
}

/** A running kernel process. User code in it can write anything to its stdout. */
export class KernelProcess {
  /** Resolves when the process has exited and all its lines were reported. Never rejects. */
  readonly exited: Promise<ProcessExit>;
  readonly #child: ChildProcess;
  readonly #stdin: Writable;
  readonly #stdout: Readable;
  /** Host pid of the process that runs Deno, not of its launcher. To be called once it has reported. */
  readonly locate: () => Promise<number | undefined>;
  #killReason: string | undefined;
  #sentLines = 0;

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

  send(op: Exclude<Command["op"], "ping">, id: number, value?: object): void {
    this.#stdin.write(formatCommand(op, id, value));
    this.#sentLines += 1;
  }

  ping(): void {
    this.#stdin.write(formatCommand("ping", this.#sentLines));
    this.#sentLines += 1;
  }

  /** Stops reading: the full pipe blocks the child. */
  pause(): void {
    this.#stdout.pause();
  }

  resume(): void {
    this.#stdout.resume();
  }

  get paused(): boolean {
    return this.#stdout.isPaused();
  }

  /** Closes its stdin, whereupon it exits normally. */
  end(): void {
    this.#stdin.end();
  }

  /**
   * The first reason counts. Killing the launcher ends everything in its jail once that is set up. Before, its child
   * would wait for it forever, so the whole process group is killed.
   */
  kill(reason: string): void {
    this.#killReason ??= reason;
    killGroup(this.#child);
    // A paused stream never ends, and the exit would not be seen.
    this.#stdout.resume();
  }
}

/** Maximum number of stray lines that are logged; user code can write any number. */
const MAX_STRAYS = 20;

/** Starts a kernel's process. `report` is called with each parsed line that starts with the nonce. */
export function startProcess(launch: Launch, report: (report: Report) => void, log: Log): KernelProcess {
  const { child, locate } = start(launch);
  let stderr = "";
  const exited = new Promise<Omit<ProcessExit, "reason">>((resolve) => {
    child.once("close", (code, signal) => {
      if (stderr) log.debug(`a kernel's stderr: ${stderr}`);
      resolve({ ...decodeSignalExit({ code, signal }), stderr });
    });
    child.once("error", (error) => resolve({ code: null, signal: null, stderr: error.message }));
  });
  const kernelProcess = new KernelProcess(child, { locate, exited });
  // Ignored: writing to a dead child fails, and its exit is reported anyway.
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
          log.debug(`stray line from a kernel: ${line.slice(0, 200)}`);
        }
      }
    } catch (error) {
      kernelProcess.kill(`The kernel was ended: ${error instanceof Error ? error.message : error}.`);
    }
  });
  child.stdin?.write(`${JSON.stringify({ nonce, ...launch.start } satisfies StartCommand)}\n`);
  return kernelProcess;
}

function start({ command, env, jail }: Launch): { child: ChildProcess; locate: () => Promise<number | undefined> } {
  const stdio: "pipe"[] = ["pipe", "pipe", "pipe"];
  if (jail) {
    const { child, ids } = spawnJailed(jail, command, { stdio });
    return { child, locate: () => ids.then((found) => found && programPid(found.first)) };
  }
  const [program = "", ...args] = command;
  // User code can see the working directory: it must not reveal anything about the user.
  const child = spawn(program, args, { cwd: parse(program).root, env, detached: hasGroups, stdio });
  return { child, locate: async () => child.pid };
}
