import { CellwrightError } from "../../src/errors.ts";
import type { ExecutionEvent } from "../../src/execution.ts";
import type { ExecuteOptions, Kernel, KernelProvider } from "../../src/kernels/kernel.ts";

/**
 * A kernel whose cells are scripts of our own, one step a line, so that tests can make any order of events happen:
 *
 *     print TEXT      error TEXT     display MIME TEXT    result TEXT
 *     sleep MS        waits; an interrupt ends the cell with KeyboardInterrupt
 *     stubborn MS     waits; an interrupt is ignored
 *     late MS TEXT    prints TEXT so long after the cell's end
 *     die             the kernel is gone
 *     never           neither ends nor reacts to anything; only dispose helps
 *     count           prints how many cells this kernel has begun, as its only state
 *     changed STEP    does STEP only once the world has changed
 */
export interface FakeKernel extends Kernel {
  readonly began: string[];
  readonly disposals: number;
  die(reason: string): void;
}

export function createFakeKernel(world = { changed: false }): FakeKernel {
  let close!: (reason: { reason: string }) => void;
  const closed = new Promise<{ reason: string }>((resolve) => {
    close = resolve;
  });
  const gone = closed.then(({ reason }) => new CellwrightError("kernel_died", reason));
  const began: string[] = [];
  let disposals = 0;
  let interruptCell: (() => void) | undefined;
  let running = false;

  async function* execute(code: string, options: ExecuteOptions = {}): AsyncGenerator<ExecutionEvent> {
    if (running) throw new Error("two cells at once in one kernel");
    running = true;
    began.push(code);
    const count = began.length;
    const interrupted = new Promise<"interrupted">((resolve) => {
      interruptCell = () => resolve("interrupted");
    });
    try {
      for (const line of code.split("\n").map((each) => each.trim())) {
        if (line.startsWith("changed ") && !world.changed) continue;
        const step = line.replace(/^changed /, "");
        const [word = "", ...rest] = step.split(" ");
        const text = rest.join(" ");
        if (word === "print") yield { type: "stream", name: "stdout", text: `${text}\n` };
        else if (word === "count") yield { type: "stream", name: "stdout", text: `${count}\n` };
        else if (word === "result") yield { type: "result", data: { "text/plain": text } };
        else if (word === "display") yield { type: "display", data: { [rest[0] ?? ""]: rest.slice(1).join(" ") } };
        else if (word === "error") {
          yield { type: "error", name: "ValueError", message: text, traceback: [`ValueError: ${text}`] };
          yield { type: "done", status: "error", executionCount: count };
          return;
        } else if (word === "die") {
          close({ reason: "it was told to die." });
          throw await gone;
        } else if (word === "sleep") {
          const outcome = await Promise.race([pause(Number(text)), interrupted, gone]);
          if (outcome instanceof CellwrightError) throw outcome;
          if (outcome === "interrupted") {
            yield { type: "error", name: "KeyboardInterrupt", message: "", traceback: ["KeyboardInterrupt"] };
            yield { type: "done", status: "error", executionCount: count };
            return;
          }
        } else if (word === "stubborn") {
          const outcome = await Promise.race([pause(Number(text)), gone]);
          if (outcome instanceof CellwrightError) throw outcome;
        } else if (word === "never") await new Promise(() => {});
        else if (word === "late") {
          setTimeout(
            () => options.onLate?.({ type: "stream", name: "stdout", text: `${rest.slice(1).join(" ")}\n` }),
            Number(rest[0]),
          );
        }
      }
      yield { type: "done", status: "ok", executionCount: count };
    } finally {
      running = false;
      interruptCell = undefined;
    }
  }

  return {
    info: { provider: "fake", language: "python", description: "Fake kernel", layers: [] },
    closed,
    execute,
    interrupt: async () => interruptCell?.(),
    inspect: async () => [{ name: "cells", type: "int", summary: String(began.length) }],
    dispose: async () => {
      disposals += 1;
      close({ reason: "it was disposed." });
    },
    die: (reason) => close({ reason }),
    began,
    get disposals() {
      return disposals;
    },
  };
}

export interface FakeProvider extends KernelProvider {
  readonly kernels: FakeKernel[];
  readonly world: { changed: boolean };
}

export function createFakeProvider({ startMs = 0 } = {}): FakeProvider {
  const kernels: FakeKernel[] = [];
  const world = { changed: false };
  return {
    name: "fake",
    kernels,
    world,
    list: async () => [{ provider: "fake", language: "python", description: "Fake kernel", layers: [] }],
    async start(_spec, { signal }) {
      if (startMs > 0) await pause(startMs);
      signal.throwIfAborted();
      const kernel = createFakeKernel(world);
      kernels.push(kernel);
      return kernel;
    },
    dispose: async () => {
      await Promise.all(kernels.map((kernel) => kernel.dispose()));
    },
  };
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
