import { randomBytes } from "node:crypto";
import { mkdir, open, readFile, rm, symlink, writeFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { join } from "node:path";
import type { Interface } from "node:readline";
import { fromWaitStatus, type ProcessExit } from "../../jail/exit.ts";
import type { Jail } from "../../jail/jail.ts";
import type { ProcessLimits } from "../../jail/limits.ts";
import { jailRequest } from "../../jail/policy.ts";
import type { BootRequest } from "./cold.ts";
import { hostDir, preludeDir } from "./cold.ts";
import { goneByLooking, type KernelProcess, type ProcessId } from "./kernel-process.ts";

/** A kernel to be forked. Files are on this machine; their folders are there. */
export interface Fork {
  /** Without the descriptors and our folders, which are added here. */
  request: Omit<BootRequest, "journalFd" | "heartbeatFd" | "preludeDir" | "hostDir">;
  journalFile: string;
  heartbeatFile: string;
  /** What it says before its output is a kernel's: why a start failed, and its last words when it crashes. */
  logFile: string;
  /** Its whole environment, unless there is a jail, which has its own. */
  env: Record<string, string>;
  jail?: Jail | undefined;
  limits?: ProcessLimits | undefined;
  /** What numerical libraries may use. Absent: as many as there are processors. */
  threads?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** What a zygote tells about itself. */
export interface ZygoteInfo extends ProcessId {
  /** What its kernels need not import. */
  loaded: string[];
  /** What was to be imported too, and why it was not. */
  left: Record<string, string>;
}

type Answer = { pid?: number; start?: string; error?: string; alive?: boolean; status?: number | null };

/** Longest that a fork may take to stand in its jail. It takes some 30 ms; a loaded machine gets its time. */
const FORK_TIMEOUT_MS = 30_000;
/** One that has been stopped does not answer. */
const LEAVE_TIMEOUT_MS = 2_000;
/** Of a new process's log, in the reason why it is no kernel. */
const MAX_WORDS_CHARS = 600;
/** A kernel that nobody touches ends after this, when nothing else is said. */
const DEFAULT_TTL_SECONDS = 86_400;

/** A connection to the process that forks kernels of one environment. Servers come and go; it stays while it has any. */
export class Zygote {
  readonly info: ZygoteInfo;
  /** Its socket, by which a later server finds it. */
  readonly socketFile: string;
  /** Resolves when the connection is lost: it cannot fork for us any more. Never rejects. */
  readonly closed: Promise<void>;
  readonly #socket: Socket;
  readonly #answers = new Map<number, (answer: Answer) => void>();
  readonly #exits = new Map<string, (exit: ProcessExit) => void>();
  #lastId = 0;

  constructor(parts: { socket: Socket; lines: Interface; socketFile: string; info: ZygoteInfo }) {
    this.info = parts.info;
    this.socketFile = parts.socketFile;
    this.#socket = parts.socket;
    this.#socket.on("error", () => {});
    this.closed = new Promise((resolve) => this.#socket.once("close", () => resolve()));
    void this.closed.then(() => this.#lose());
    parts.lines.on("line", (line) => this.#hear(JSON.parse(line)));
  }

  /** Resolves when the new process stands in its jail and is about to become a kernel; throws with a reason if not. */
  async fork(fork: Fork): Promise<KernelProcess> {
    const name = randomBytes(16).toString("hex");
    const folder = join(this.socketFile.replace(/\.sock$/, ".forks"), name);
    try {
      await this.#writeRequest(folder, fork);
      const ttlSeconds = fork.request.ttlSeconds ?? DEFAULT_TTL_SECONDS;
      const answer = await this.#ask({ op: "fork", folder: name, ttlSeconds }, fork.signal);
      if (answer.pid === undefined) throw new Error(await withLastWords(answer.error ?? "it failed", fork.logFile));
      return this.#process({ pid: answer.pid, start: answer.start });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** A kernel that was forked for an earlier server, perhaps by an earlier zygote: then we have to look ourselves. */
  async watch(id: ProcessId): Promise<KernelProcess> {
    const watched = this.#process(id);
    const { alive, status } = await this.#ask({ op: "watch", ...id });
    if (typeof status === "number") this.#exit(id, fromWaitStatus(status));
    else if (!alive) void goneByLooking(id).then((exit) => this.#exit(id, exit));
    return watched;
  }

  /** Leaves it. When no other server is there and no kernel, it ends. */
  async dispose(): Promise<void> {
    this.#socket.end(`${JSON.stringify({ id: 0, op: "leave" })}\n`);
    const timer = setTimeout(() => this.#socket.destroy(), LEAVE_TIMEOUT_MS);
    await this.closed;
    clearTimeout(timer);
  }

  async #writeRequest(folder: string, fork: Fork): Promise<void> {
    const { request, signal, jail, ...rest } = fork;
    signal?.throwIfAborted();
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await (await open(fork.heartbeatFile, "a", 0o600)).close();
    await symlink(fork.heartbeatFile, join(folder, "heartbeat"));
    const whole = {
      ...rest,
      boot: { ...request, hostDir, preludeDir },
      jail: jail && jailRequest(jail),
    };
    await writeFile(join(folder, "request.json"), JSON.stringify(whole), { mode: 0o600 });
  }

  #process(id: ProcessId): KernelProcess {
    const exited = new Promise<ProcessExit>((resolve) => this.#exits.set(keyOf(id), resolve));
    if (this.#socket.closed) this.#lose();
    return { ...id, exited };
  }

  #ask(question: Record<string, unknown>, signal?: AbortSignal): Promise<Answer> {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      const giveUp = (reason: Error): void => {
        clearTimeout(timer);
        // An answer that comes after all speaks of a process that nobody waits for.
        this.#answers.set(id, (late) => late.pid !== undefined && killGroup(late.pid));
        reject(reason);
      };
      const aborted = (): void => giveUp(signal?.reason);
      const timer = setTimeout(() => giveUp(new Error("no answer in time")), FORK_TIMEOUT_MS);
      this.#answers.set(id, (answer) => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", aborted);
        resolve(answer);
      });
      signal?.addEventListener("abort", aborted, { once: true });
      if (signal?.aborted) aborted();
      else if (this.#socket.writable) this.#socket.write(`${JSON.stringify({ id, ...question })}\n`);
      else this.#answer(id, { error: "it is gone" });
    });
  }

  #hear(message: Answer & { id?: number; exit?: number }): void {
    if (message.id !== undefined) this.#answer(message.id, message);
    else if (message.exit !== undefined) {
      const id = { pid: message.exit, start: message.start };
      this.#exit(id, fromWaitStatus(message.status ?? 0));
    }
  }

  #answer(id: number, answer: Answer): void {
    const take = this.#answers.get(id);
    this.#answers.delete(id);
    take?.(answer);
  }

  #exit(id: ProcessId, exit: ProcessExit): void {
    const key = keyOf(id);
    this.#exits.get(key)?.(exit);
    this.#exits.delete(key);
  }

  /** Kernels go on without their zygote, but nobody tells us of their end. */
  #lose(): void {
    for (const id of [...this.#answers.keys()]) this.#answer(id, { error: "it ended meanwhile" });
    for (const [key, resolve] of this.#exits) void goneByLooking(idOf(key)).then(resolve);
    this.#exits.clear();
  }
}

function keyOf({ pid, start }: ProcessId): string {
  return `${pid} ${start ?? ""}`;
}

function idOf(key: string): ProcessId {
  const [pid, start] = key.split(" ");
  return { pid: Number(pid), start: start || undefined };
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has gone already.
  }
}

/** Beyond the first wall a new process cannot answer any more, but write to its log. */
async function withLastWords(error: string, logFile: string): Promise<string> {
  const words = (await readFile(logFile, "utf8").catch(() => "")).trim().slice(-MAX_WORDS_CHARS);
  return words ? `${error}: ${words}` : error;
}
