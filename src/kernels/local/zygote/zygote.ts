import { randomBytes } from "node:crypto";
import { mkdir, open, readFile, rm, symlink, writeFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { join } from "node:path";
import type { Interface } from "node:readline";
import { fromWaitStatus, type ProcessExit } from "../../../isolation/exit.ts";
import { jailRequest } from "../../../isolation/policy.ts";
import { kill } from "../../../process/kill.ts";
import type { ProcessId } from "../../../process/process-life.ts";
import { packageDirs } from "../../python/folders.ts";
import type { KernelStart } from "../cold.ts";
import { goneByLooking, type KernelProcess } from "../kernel-process.ts";

/** A request to fork a kernel. */
export interface Fork extends KernelStart {
  /** Stderr before the kernel's own output is set up, and after a crash: why a start failed. */
  logFile: string;
  signal?: AbortSignal | undefined;
}

/** What a zygote reports about itself. */
export interface ZygoteInfo extends ProcessId {
  /** Modules imported in advance. */
  loaded: string[];
  /** Modules that could not be imported in advance, and why. */
  left: Record<string, string>;
}

type Answer = { pid?: number; start?: string; error?: string; alive?: boolean; status?: number | null };

/** Maximum time until a fork is in its jail. It takes about 30 ms; the rest is for loaded machines. */
const FORK_TIMEOUT_MS = 30_000;
/** A stopped process does not answer. */
const LEAVE_TIMEOUT_MS = 2_000;
/** How much of a new process's log goes into the failure's reason. */
const MAX_WORDS_CHARS = 600;

/** A connection to the process that forks one environment's kernels. It outlives single servers. */
export class Zygote {
  readonly info: ZygoteInfo;
  /** Lets a later server find it. */
  readonly socketFile: string;
  /** Resolves when the connection is lost: no more forks. Never rejects. */
  readonly closed: Promise<void>;
  readonly #socket: Socket;
  readonly #answers = new Map<number, (answer: Answer) => void>();
  readonly #exits = new Map<string, { id: ProcessId; resolve: (exit: ProcessExit) => void }>();
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

  /** Resolves when the new process is in its jail and about to become a kernel. Throws with a reason on failure. */
  async fork(fork: Fork): Promise<KernelProcess> {
    const name = randomBytes(16).toString("hex");
    const folder = join(this.socketFile.replace(/\.sock$/, ".forks"), name);
    try {
      await this.#writeRequest(folder, fork);
      const { ttlSeconds } = fork.request;
      const answer = await this.#ask({ op: "fork", folder: name, ttlSeconds }, fork.signal);
      if (answer.pid === undefined) throw new Error(await withLastWords(answer.error ?? "it failed", fork.logFile));
      return this.#process({ pid: answer.pid, start: answer.start });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** Watches a kernel that was forked for an earlier server. If an earlier zygote forked it, its exit is polled. */
  async watch(id: ProcessId): Promise<KernelProcess> {
    const watched = this.#process(id);
    const { alive, status } = await this.#ask({ op: "watch", ...id });
    if (typeof status === "number") this.#exit(id, fromWaitStatus(status));
    else if (!alive) void goneByLooking(id).then((exit) => this.#exit(id, exit));
    return watched;
  }

  /** Disconnects. The zygote ends if it has no other server and no kernel. */
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
      boot: { ...request, folders: packageDirs },
      jail: jail && jailRequest(jail),
    };
    await writeFile(join(folder, "request.json"), JSON.stringify(whole), { mode: 0o600 });
  }

  #process(id: ProcessId): KernelProcess {
    const exited = new Promise<ProcessExit>((resolve) => this.#exits.set(keyOf(id), { id, resolve }));
    if (this.#socket.closed) this.#lose();
    return { ...id, exited };
  }

  #ask(question: Record<string, unknown>, signal?: AbortSignal): Promise<Answer> {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      const giveUp = (reason: Error): void => {
        clearTimeout(timer);
        // A late answer means an orphan.
        this.#answers.set(id, (late) => late.pid !== undefined && kill(-late.pid));
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
    this.#exits.get(key)?.resolve(exit);
    this.#exits.delete(key);
  }

  /** Kernels survive their zygote, but their exits have to be polled. */
  #lose(): void {
    for (const id of [...this.#answers.keys()]) this.#answer(id, { error: "it ended meanwhile" });
    for (const { id, resolve } of this.#exits.values()) void goneByLooking(id).then(resolve);
    this.#exits.clear();
  }
}

function keyOf({ pid, start }: ProcessId): string {
  return `${pid} ${start ?? ""}`;
}

/** While entering its jail, a new process cannot answer, but can write to its log. */
async function withLastWords(error: string, logFile: string): Promise<string> {
  const words = (await readFile(logFile, "utf8").catch(() => "")).trim().slice(-MAX_WORDS_CHARS);
  return words ? `${error}: ${words}` : error;
}
