import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { ScaledPicture, ScaleJob } from "./scale.ts";

/** Time that all pictures of one reply may take together: a client is waiting, and the originals are linked. */
const DEADLINE_MS = 10_000;

/** Beside the pixels, which are not counted here, decoding needs little. */
const WORKER_HEAP_MB = 256;

/** Makes pictures of one reply smaller, one after another. */
export interface Scaler {
  /** Undefined if the picture cannot be decoded or made to fit, or time is up. Never rejects. */
  scale(job: ScaleJob): Promise<ScaledPicture | undefined>;
  close(): Promise<void>;
}

/**
 * Decoding untrusted pictures is slow and may fail in any way, so a thread does it, started for the first picture of a
 * reply that needs it and ended with the reply. Node 20 cannot run a thread from TypeScript: where there is no compiled
 * worker beside this file, which is in tests from source only, the same function runs here.
 */
export function createScaler({ deadlineMs = DEADLINE_MS, workerUrl = compiledWorker } = {}): Scaler {
  let worker: Worker | undefined;
  let failed = false;
  let deadline: number | undefined;

  async function scale(job: ScaleJob): Promise<ScaledPicture | undefined> {
    deadline ??= performance.now() + deadlineMs;
    const leftMs = deadline - performance.now();
    if (failed || leftMs <= 0) return undefined;
    try {
      if (!existsSync(fileURLToPath(workerUrl))) return (await import("./scale.ts")).scalePicture(job);
      worker ??= startWorker(workerUrl);
      return await ask(worker, job, leftMs);
    } catch {
      // What is wrong with the picture is of no use to the reader; that it is not shown is said.
      return undefined;
    }
  }

  async function ask(running: Worker, job: ScaleJob, leftMs: number): Promise<ScaledPicture | undefined> {
    const answer = await new Promise<{ picture?: ScaledPicture } | undefined>((resolve) => {
      const timer = setTimeout(() => settle(undefined), leftMs);
      const settle = (value: { picture?: ScaledPicture } | undefined) => {
        clearTimeout(timer);
        running.off("message", settle).off("exit", gone).off("error", gone);
        failed ||= value === undefined;
        resolve(value);
      };
      const gone = () => settle(undefined);
      running.on("message", settle).on("exit", gone).on("error", gone);
      running.postMessage(job);
    });
    return answer?.picture;
  }

  return {
    scale,
    async close() {
      await worker?.terminate();
    },
  };
}

const compiledWorker = new URL("./picture-worker.js", import.meta.url);

function startWorker(url: URL): Worker {
  const worker = new Worker(url, {
    resourceLimits: { maxOldGenerationSizeMb: WORKER_HEAP_MB },
    // What a decoder prints must not reach stdout, which belongs to MCP.
    stdout: true,
    stderr: true,
  });
  worker.unref();
  // Without a listener, an error of the thread (out of memory) would end the program.
  worker.on("error", () => {});
  return worker;
}
