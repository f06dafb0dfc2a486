import type { Language } from "../../../execution.ts";
import type { Log } from "../../../log.ts";
import type { JupyterServer } from "../server/server.ts";
import { askPlace, type MirrorPlace } from "./mirror-place.ts";

export interface InstancesParts {
  server: Pick<JupyterServer, "name" | "kernels" | "deleteKernel">;
  place: MirrorPlace;
  log: Log;
}

/** A kernel's purpose; a helper kernel has no session. */
export interface KernelMark {
  sessionId?: string;
  language?: Language;
}

interface FoundMark {
  kernel: string;
  /** The instance that started it has sent a heartbeat recently. */
  alive: boolean;
  /** Its session has ended or is unknown. */
  over: boolean;
}

/** An instance without a heartbeat for four times this long is dead: see python/remote-helper/helper_instances.py. */
const HEARTBEAT_MS = 15_000;
/** Heartbeats per sweep. */
const BEATS_PER_SWEEP = 4;
/** Shutdown does not wait longer than this for a server. */
const END_MS = 4_000;

/**
 * Registry of instances and kernels, as files on the server: `.cellwright/instances/` has one per Cellwright process,
 * `.cellwright/kernels/` one per kernel started by such a process. All times are by the server's clock.
 */
export class Instances {
  readonly #parts: InstancesParts;
  #timer: NodeJS.Timeout | undefined;
  #beats = 0;
  #isSilent = false;

  constructor(parts: InstancesParts) {
    this.#parts = parts;
  }

  /** Sends heartbeats from now on, and deletes orphaned kernels periodically. */
  async start(): Promise<void> {
    this.#timer = setInterval(() => this.#beat(), HEARTBEAT_MS).unref();
    await this.heartbeat();
  }

  async heartbeat(): Promise<void> {
    const { place } = this.#parts;
    await askPlace(place, "heartbeat", { instance: place.instance });
  }

  /** To be called for each new kernel immediately, and for each adopted one. */
  async noteKernel(kernelId: string, { sessionId, language }: KernelMark): Promise<void> {
    const { place } = this.#parts;
    const mark = { session: sessionId ?? null, language: language ?? "helper", instance: place.instance };
    await askPlace(place, "mark_kernel", { kernel: kernelId, mark });
  }

  /** After a kernel was deleted. */
  async forgetKernel(kernelId: string): Promise<void> {
    await askPlace(this.#parts.place, "unmark_kernel", { kernel: kernelId });
  }

  /**
   * Deletes orphans: the instance that started them is dead, and their session has ended or is unknown. Kernels of live
   * instances, and kernels that no Cellwright started, are left alone. Returns the deleted ids.
   */
  async sweep(): Promise<string[]> {
    const { server, place, log } = this.#parts;
    const marks = await askPlace<FoundMark[]>(place, "kernel_marks", {});
    // Listed after the marks: a marked kernel that is missing from this list is gone, not about to appear.
    const living = new Set(await server.kernels(AbortSignal.timeout(30_000)));
    const deleted: string[] = [];
    for (const { kernel, alive, over } of marks) {
      if (living.has(kernel) && (alive || !over)) continue;
      if (living.has(kernel)) {
        await server.deleteKernel(kernel);
        deleted.push(kernel);
      }
      await this.forgetKernel(kernel);
    }
    if (deleted.length > 0) log.info(`${server.name}: ${deleted.length} orphaned kernels were deleted`);
    return deleted;
  }

  /** Shutdown: releases everything that this instance uses. */
  async dispose(): Promise<void> {
    clearInterval(this.#timer);
    const { place } = this.#parts;
    const signal = AbortSignal.timeout(END_MS);
    await askPlace(place, "instance_ends", { instance: place.instance }, { signal }).catch(() => {});
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
          if (!this.#isSilent)
            this.#parts.log.warn(`${this.#parts.server.name}: cannot register this Cellwright there`, error);
          this.#isSilent = true;
        },
      );
  }
}
