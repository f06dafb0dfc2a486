/** The isolate that holds Python. User code can reach everything in here, so nothing here is believed outside. */
import { lstatSync } from "node:fs";
import process from "node:process";
import { workerScope } from "./deno.ts";
import { Descriptor } from "./descriptor.ts";
import type { CellRequest } from "./frames.ts";
import { InterruptReceiver } from "./interrupts.ts";
import { growMemoryFor } from "./memory.ts";
import { mendNodeFs } from "./nodefs.ts";
import { loadPyodide, moduleFactory, type Pyodide } from "./pyodide.ts";
import { Quota } from "./quota.ts";
import { kinds, MAX_RECORD_BYTES, RingWriter } from "./ring.ts";

export type WorkerCommand =
  | WorkerStart
  /** `interrupts`: how many were sent before this cell. */
  | { op: "execute"; cell: number; request: CellRequest; interrupts: number }
  | { op: "cancel" }
  | { op: "ask"; id: number; question: string }
  | { op: "ping" };

interface WorkerStart {
  op: "start";
  ring: SharedArrayBuffer;
  interrupts: SharedArrayBuffer;
  snapshot: Uint8Array<ArrayBuffer>;
  pyodideDir: string;
  workspaceDir: string;
  siteDir: string;
  imageDir?: string | undefined;
  readable: { root: string; at: string }[];
  diskBytes: number;
}

export type WorkerStarted = { python: string; failed?: undefined } | { failed: string };

/** When the garbage of the start, the snapshot's 30 MB above all, is collected: not in the way of the first cell. */
const GARBAGE_DELAY_MS = 1_000;

/** The runner inside Python, see `runner.py`. */
interface Runner {
  attach(host: unknown): string;
  /** Resolves with false when the cell has to be awaited. A promise, so that `asyncio.run` can wait inside a cell. */
  start: { callPromising(cell: number, request: string): Promise<boolean> };
  finish(): Promise<void>;
  cancel(): void;
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
  // Otherwise `input()` would read the control channel and swallow our next line.
  python.setStdin({ error: true });
  const runner = python.pyimport("_cellwright.runner") as Runner;
  const version = runner.attach(createHost(python, ring, interrupts));
  const descriptors = [new Descriptor(kinds.stdout, ring), new Descriptor(kinds.stderr, ring)] as const;
  python.setStdout({ write: (bytes) => descriptors[0].write(bytes) });
  python.setStderr({ write: (bytes) => descriptors[1].write(bytes) });
  workerScope.postMessage({ python: version } satisfies WorkerStarted);
  setTimeout(collectGarbage, GARBAGE_DELAY_MS);

  const encoder = new TextEncoder();
  return async (command) => {
    if (command.op === "execute") {
      // The runner reports every exception of the cell itself. What comes out here is Python's own end.
      try {
        interrupts.forget(command.interrupts);
        for (const descriptor of descriptors) descriptor.begin(command.cell);
        const request = JSON.stringify(command.request);
        if (!(await runner.start.callPromising(command.cell, request))) await runner.finish();
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        ring.write(kinds.event, command.cell, encoder.encode(JSON.stringify({ type: "fatal", reason })));
      }
    } else if (command.op === "ask") {
      ring.write(kinds.answer, command.id, encoder.encode(runner.answer(command.question)));
    } else if (command.op === "cancel" || command.op === "ping") {
      ring.turn();
      // Sent because we did not come here. Python would hear it in its event loop, and break.
      interrupts.take();
      if (command.op === "cancel") runner.cancel();
    }
  };
}

async function restorePython(options: WorkerStart): Promise<Pyodide> {
  const { snapshot, pyodideDir } = options;
  // Deno refuses to say who we are, and Pyodide dies of the refusal (`os.getuid`). The files' owner is as good.
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
  // Pyodide would keep the snapshot's 30 MB alive for as long as the kernel lives.
  python._api.config._loadSnapshot = null;
  (options as { snapshot?: unknown }).snapshot = undefined;
  python.FS.chdir("/workspace");
  return python;
}

/** What Python calls out to. */
function createHost(python: Pyodide, ring: RingWriter, interrupts: InterruptReceiver) {
  const encoder = new TextEncoder();
  const scratch = new Uint8Array(MAX_RECORD_BYTES);
  const nap = new Int32Array(new SharedArrayBuffer(4));
  return {
    /** At most 16 k characters at a time, so that one record holds them whole. */
    stream(isStderr: boolean, cell: number, text: string): void {
      if (!text.isWellFormed()) {
        // UTF-8 has no lone surrogates; JSON does.
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
    /** Waits without burning the processor. True: an interrupt came in. */
    sleep(ms: number): boolean {
      ring.beat();
      Atomics.wait(nap, 0, 0, ms);
      return interrupts.take();
    },
    /**
     * Interrupts are for user code: they must not hit the runner while it reports how a cell ended. True: one came in
     * while they could not be heard.
     */
    interruptible(on: boolean): boolean {
      const missed = interrupts.take();
      python.setInterruptBuffer(on ? interrupts : undefined);
      return missed;
    },
  };
}

function collectGarbage(): void {
  (globalThis as { gc?: () => void }).gc?.();
}
