/** The isolate that runs Python. User code can reach everything in it, so its output is never trusted outside. */
import { lstatSync } from "node:fs";
import process from "node:process";
import { workerScope } from "./deno.ts";
import { Descriptor } from "./descriptor.ts";
import type { Command, StartCommand } from "./frames.ts";
import { InterruptReceiver } from "./interrupts.ts";
import { growMemoryFor } from "./memory.ts";
import { mendNodeFs } from "./nodefs.ts";
import { loadPyodide, moduleFactory, type Pyodide } from "./pyodide.ts";
import { Quota } from "./quota.ts";
import { kinds, MAX_RECORD_BYTES, RingWriter } from "./ring.ts";

/** `interrupts`: how many were sent so far. */
export type WorkerCommand = Command & { interrupts: number };

export interface WorkerStart extends Omit<StartCommand, "nonce" | "snapshotFile"> {
  ring: SharedArrayBuffer;
  interrupts: SharedArrayBuffer;
  snapshot: Uint8Array<ArrayBuffer>;
}

export type WorkerStarted = { python: string; failed?: undefined } | { failed: string };

/** The start's garbage, mainly the snapshot's 30 MB, is collected later, so as not to slow the first cell. */
const GARBAGE_DELAY_MS = 1_000;

/** The runner inside Python, see `runner.py`. */
interface Runner {
  attach(host: unknown): string;
  /** Resolves with false if the cell has to be awaited. A promise, so that `asyncio.run` can wait inside a cell. */
  start: { callPromising(cell: number, request: string): Promise<boolean> };
  finish(): Promise<void>;
  /** False: it could not be delivered yet. */
  interrupt(request: number): boolean;
  answer(question: string): string;
}

workerScope.onmessage = async ({ data }) => {
  const command = data as WorkerStart;
  try {
    const kernel = await startKernel(command);
    workerScope.onmessage = (event) => void kernel(event.data as WorkerCommand);
  } catch (error) {
    const failed = error instanceof Error ? (error.stack ?? error.message) : String(error);
    workerScope.postMessage({ failed } satisfies WorkerStarted);
  }
};

async function startKernel(options: WorkerStart): Promise<(command: WorkerCommand) => Promise<void>> {
  const ring = new RingWriter(options.ring, () => workerScope.postMessage(null));
  const interrupts = new InterruptReceiver(options.interrupts);
  const python = await restorePython(options);
  // Otherwise `input()` would read a line of the control channel.
  python.setStdin({ error: true });
  const runner = python.pyimport("_cellwright.runner") as Runner;
  const version = runner.attach(createHost(ring, interrupts));
  python.setInterruptBuffer(interrupts);
  const descriptors = [new Descriptor(kinds.stdout, ring), new Descriptor(kinds.stderr, ring)] as const;
  python.setStdout({ write: (bytes) => descriptors[0].write(bytes) });
  python.setStderr({ write: (bytes) => descriptors[1].write(bytes) });
  workerScope.postMessage({ python: version } satisfies WorkerStarted);
  setTimeout(collectGarbage, GARBAGE_DELAY_MS);

  const encoder = new TextEncoder();
  let runningCell: number | undefined;
  const execute = async (cell: number, request: string) => {
    runningCell = cell;
    for (const descriptor of descriptors) descriptor.begin(cell);
    // The runner reports all exceptions of the cell. An error here means that Python itself exited.
    try {
      if (!(await runner.start.callPromising(cell, request))) await runner.finish();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      ring.write(kinds.fatal, cell, encoder.encode(JSON.stringify(reason)));
    }
    // The next cell may have started already: it is sent as soon as the runner has reported the end of this one.
    if (runningCell === cell) runningCell = undefined;
  };
  /** Python takes an interrupt while it computes, or here while it waits. For some turns it may do neither. */
  const interrupt = (cell: number, count: number) => {
    if (cell === runningCell && !runner.interrupt(count)) setTimeout(interrupt, 0, cell, count);
  };
  return async ({ op, id, json, interrupts: count }) => {
    ring.beat();
    if (op === "execute") {
      // An interrupt that was too late for the previous cell must not hit this one.
      interrupts.forget(count);
      await execute(id, json);
    } else if (op === "interrupt") {
      interrupt(id, count);
    } else if (op === "ask") {
      ring.write(kinds.answer, id, encoder.encode(runner.answer(json)));
    }
  };
}

async function restorePython(options: WorkerStart): Promise<Pyodide> {
  const { snapshot, pyodideDir } = options;
  // Deno denies `os.getuid`, and Pyodide crashes on that. The workspace's owner is used instead.
  const { uid } = lstatSync(options.workspaceDir);
  process.getuid = () => uid;
  const createModule = await moduleFactory(pyodideDir);
  growMemoryFor(snapshot);
  const python = await loadPyodide(pyodideDir, {
    env: { HOME: "/home/user" },
    _loadSnapshot: snapshot,
    createPyodideModule: async (settings) => {
      const module = await createModule(settings);
      mendNodeFs(module.FS, new Quota(options.workspaceDir, options.diskBytes));
      for (const [at, root] of [
        ["/site", options.siteDir],
        ["/image", options.imageDir],
        ["/workspace", options.workspaceDir],
        ...options.readable.map(({ root, at }) => [at, root] as const),
      ] as const) {
        if (root === undefined) continue;
        module.FS.mkdirTree(at);
        module.FS.mount(module.FS.filesystems.NODEFS, { root }, at);
      }
      return module;
    },
  });
  // Pyodide would keep the snapshot's 30 MB for the life of the kernel.
  python._api.config._loadSnapshot = null;
  (options as { snapshot?: unknown }).snapshot = undefined;
  python.FS.chdir("/workspace");
  return python;
}

/** What Python can call. */
function createHost(ring: RingWriter, interrupts: InterruptReceiver) {
  const encoder = new TextEncoder();
  const scratch = new Uint8Array(MAX_RECORD_BYTES);
  return {
    /** At most 16 k characters at a time, which fit into one record. */
    stream(isStderr: boolean, cell: number, text: string): void {
      if (!text.isWellFormed()) {
        // UTF-8 cannot encode lone surrogates; JSON can.
        const event = { type: "stream", name: isStderr ? "stderr" : "stdout", text };
        ring.write(kinds.event, cell, encoder.encode(JSON.stringify(event)));
        return;
      }
      const { written } = encoder.encodeInto(text, scratch);
      ring.write(isStderr ? kinds.stderr : kinds.stdout, cell, scratch.subarray(0, written));
    },
    /** `json` is ASCII: Python escapes the rest, lone surrogates included. */
    event(cell: number, json: string): void {
      ring.write(kinds.event, cell, encoder.encode(json));
    },
    done(cell: number, json: string): void {
      ring.write(kinds.done, cell, encoder.encode(json));
    },
    /** Sleeps without using the processor, until an interrupt arrives or the time is over. */
    sleep(ms: number): void {
      ring.beat();
      interrupts.wait(ms);
    },
    interrupts,
  };
}

function collectGarbage(): void {
  (globalThis as { gc?: () => void }).gc?.();
}
