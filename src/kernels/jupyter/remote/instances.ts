import type { Language } from "../../../execution.ts";
import type { Log } from "../../../log.ts";
import type { Call } from "./helper.ts";
import type { JupyterServer } from "./server.ts";

export interface InstancesParts {
  server: Pick<JupyterServer, "name" | "kernels" | "deleteKernel">;
  call: Call;
  notebooksFolder: string;
  /** This program: unique for each start of it, the same on all servers. */
  instance: string;
  log: Log;
}

/** What a kernel is for; the helper's own has no session. */
export interface KernelMark {
  sessionId?: string;
  language?: Language;
}

interface FoundMark {
  kernel: string;
  /** The program that started it last said that it is there not long ago. */
  alive: boolean;
  /** Its session has ended, or nothing is known of it. */
  over: boolean;
}

/** A program that says nothing for four times as long is dead: see host/helper_instances.py. */
const HEARTBEAT_MS = 15_000;
/** Every fourth heartbeat. */
const BEATS_PER_SWEEP = 4;
/** A server that does not answer does not keep the program from ending. */
const END_MS = 4_000;

/**
 * Who uses what on one server, in files there: `.cellwright/instances/`, one for each program like this, and
 * `.cellwright/kernels/`, one for each kernel that such a program started. All of it is judged by the server's clock.
 */
export class Instances {
  readonly instance: string;
  readonly #parts: InstancesParts;
  #timer: NodeJS.Timeout | undefined;
  #beats = 0;
  #isSilent = false;

  constructor(parts: InstancesParts) {
    this.#parts = parts;
    this.instance = parts.instance;
  }

  /** Says that this program is there, now and from now on, and deletes kernels that nobody wants, now and then. */
  async start(): Promise<void> {
    this.#timer = setInterval(() => this.#beat(), HEARTBEAT_MS).unref();
    await this.heartbeat();
  }

  async heartbeat(): Promise<void> {
    await this.#ask("heartbeat", { instance: this.instance });
  }

  /** To be called for each kernel as soon as there is one, and again when it is taken over from an earlier program. */
  async noteKernel(kernelId: string, { sessionId, language }: KernelMark): Promise<void> {
    const mark = { session: sessionId ?? null, language: language ?? "helper", instance: this.instance };
    await this.#ask("mark_kernel", { kernel: kernelId, mark });
  }

  /** After a kernel was deleted. */
  async forgetKernel(kernelId: string): Promise<void> {
    await this.#ask("unmark_kernel", { kernel: kernelId });
  }

  /**
   * Deletes kernels of ours that nobody will come for: the program that started them is dead, and their session has
   * ended or is unknown. Those of live programs and those that are not ours are left alone. Returns what was deleted.
   */
  async sweep(): Promise<string[]> {
    const { server, log } = this.#parts;
    const marks = await this.#ask<FoundMark[]>("kernel_marks", {});
    // Looked up afterwards: a kernel with a mark that is not in this list is gone, and not about to come.
    const living = new Set((await server.kernels(AbortSignal.timeout(30_000))).map(({ id }) => id));
    const deleted: string[] = [];
    for (const { kernel, alive, over } of marks) {
      if (living.has(kernel) && (alive || !over)) continue;
      if (living.has(kernel)) {
        await server.deleteKernel(kernel);
        deleted.push(kernel);
      }
      await this.forgetKernel(kernel);
    }
    if (deleted.length > 0) log.info(`${server.name}: ${deleted.length} kernels that nobody uses were deleted`);
    return deleted;
  }

  /** The program ends: what it used is free at once. */
  async dispose(): Promise<void> {
    clearInterval(this.#timer);
    const signal = AbortSignal.timeout(END_MS);
    await this.#ask("instance_ends", { instance: this.instance }, signal).catch(() => {});
  }

  #beat(): void {
    this.#beats += 1;
    const isSweepDue = this.#beats % BEATS_PER_SWEEP === 0;
    void this.heartbeat()
      .then(() => (isSweepDue ? this.sweep() : undefined))
      .then(
        () => {
          this.#isSilent = false;
        },
        (error) => {
          if (!this.#isSilent) this.#parts.log.warn(`${this.#parts.server.name} cannot be told who uses it`, error);
          this.#isSilent = true;
        },
      );
  }

  #ask<T>(operation: string, args: Parameters<Call>[1], signal?: AbortSignal): Promise<T> {
    const { call, notebooksFolder } = this.#parts;
    return call<T>(operation, { notebooks: notebooksFolder, ...args }, signal && { signal });
  }
}
