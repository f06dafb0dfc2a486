import { setTimeout as delay } from "node:timers/promises";
import { CellwrightError } from "../../errors.ts";
import type { ExecutionEvent } from "../../execution.ts";
import type { Kernel } from "../../kernels/kernel.ts";
import type { Log } from "../../log.ts";
import type { Run } from "../run/run.ts";

/** Events of a dead kernel may still be on their way. */
const GONE_DRAIN_MS = 100;

/** How a cell ended. `lost`: its kernel is gone, and why. */
export interface CellEnd {
  status: "ok" | "error" | "kernel_died";
  lost?: string;
}

/** The time in which one cell has the session's kernel to itself. */
export class Turn {
  readonly run: Run;
  readonly #log: Log;
  #kernel: Kernel | undefined;
  readonly #gone = signal<string>();
  readonly #over = signal<void>();

  constructor(run: Run, log: Log) {
    this.run = run;
    this.#log = log;
  }

  /** Follows the cell until `done`, or until its kernel is gone. */
  async follow(kernel: Kernel, events: AsyncIterable<ExecutionEvent>): Promise<CellEnd> {
    this.#kernel = kernel;
    // A dead kernel must not hold the turn, even if its iterator never ends.
    const gone = this.#gone.fired.then((lost): CellEnd => ({ status: "kernel_died", lost }));
    return Promise.race([this.#consume(events), gone]);
  }

  /** The cell is over: releases those that wait in `stop`. */
  end(): void {
    this.#over.fire();
  }

  /** Interrupts the cell, and kills its kernel if it does not stop in time. */
  async stop(graceMs: number): Promise<void> {
    const kernel = this.#kernel;
    if (!kernel) return;
    void kernel.interrupt?.().catch((error) => this.#log.warn("an interrupt failed", error));
    const waiting = new AbortController();
    const grace = delay(kernel.interrupt ? graceMs : 0, undefined, { signal: waiting.signal }).catch(() => {});
    await Promise.race([this.#over.fired, grace]);
    waiting.abort();
    if (this.run.phase !== "running") return;
    await kernel.dispose();
    this.#gone.fire("it was killed.");
  }

  /** True if the dead kernel was running this cell, whose reply then reports it. */
  lose(kernel: Kernel, reason: string): boolean {
    if (this.#kernel !== kernel) return false;
    setTimeout(() => this.#gone.fire(reason), GONE_DRAIN_MS);
    return true;
  }

  async #consume(events: AsyncIterable<ExecutionEvent>): Promise<CellEnd> {
    try {
      for await (const event of events) {
        if (this.run.phase !== "running") break;
        this.run.add(event);
        if (event.type === "done") return { status: event.status };
      }
      return { status: "kernel_died", lost: "it stopped during the cell." };
    } catch (error) {
      if (error instanceof CellwrightError) return { status: "kernel_died", lost: error.message };
      this.#log.error("kernel failed unexpectedly", error);
      return { status: "kernel_died", lost: "it failed unexpectedly." };
    }
  }
}

/** A promise with its resolver. */
function signal<T>(): { fired: Promise<T>; fire(value: T): void } {
  let fire!: (value: T) => void;
  const fired = new Promise<T>((resolve) => {
    fire = resolve;
  });
  return { fired, fire };
}
