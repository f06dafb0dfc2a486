import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { doJob, type PictureJob } from "./job.ts";
import type { ScaledPicture, ScaleJob } from "./scale.ts";
import type { DrawJob } from "./svg.ts";
import { svgEngine } from "./svg-engine.ts";

/**
 * Deadline for all pictures of one reply: a client is waiting, and the originals are linked. The largest picture takes
 * about 5 s of processor time; the rest is for a busy machine, as for figures (browser/browser.ts).
 */
const DEADLINE_MS = 30_000;

/** Heap of the worker, without pixels, which are not on the heap. */
const WORKER_HEAP_MB = 256;

/** Scales the pictures of one reply and draws its SVGs, one after another. */
export interface Scaler {
  /** Undefined if the picture cannot be decoded or scaled to fit, or after the deadline. Never rejects. */
  scale(job: ScaleJob): Promise<ScaledPicture | undefined>;
  /** Undefined if it cannot be drawn, or after the deadline. Never rejects. */
  draw(job: Omit<DrawJob, "engine">): Promise<ScaledPicture | undefined>;
  close(): Promise<void>;
}

/**
 * Decodes untrusted pictures in a worker thread, because that is slow and may crash. The thread starts with the first
 * picture that needs it and ends with the reply. Node 20 cannot run a worker from TypeScript: in tests from source,
 * where no compiled worker exists, the same function runs in this thread.
 */
export function createScaler({ deadlineMs = DEADLINE_MS, workerUrl = compiledWorker } = {}): Scaler {
  let worker: Worker | undefined;
  let deadline: number | undefined;

  async function work(job: PictureJob): Promise<ScaledPicture | undefined> {
    deadline ??= performance.now() + deadlineMs;
    if (performance.now() >= deadline) return undefined;
    if (!existsSync(fileURLToPath(workerUrl))) return doJob(job);
    worker ??= startWorker(workerUrl);
    return ask(worker, job, deadline - performance.now());
  }

  async function ask(running: Worker, job: PictureJob, leftMs: number) {
    const answer = await new Promise<{ picture?: ScaledPicture } | undefined>((resolve) => {
      const timer = setTimeout(() => settle(undefined), leftMs);
      const settle = (value: { picture?: ScaledPicture } | undefined) => {
        clearTimeout(timer);
        running.off("message", settle).off("exit", gone).off("error", gone);
        resolve(value);
      };
      const gone = () => settle(undefined);
      running.on("message", settle).on("exit", gone).on("error", gone);
      running.postMessage(job);
    });
    if (!answer) {
      // The worker is gone, or still busy with a picture past its deadline.
      worker = undefined;
      void running.terminate();
    }
    return answer?.picture;
  }

  // The cause does not help the reader; the reply says that the picture is not shown.
  return {
    scale: (job) => work({ type: "scale", ...job }).catch(() => undefined),
    draw: (job) =>
      svgEngine()
        .then((engine) => work({ type: "draw", ...job, engine }))
        .catch(() => undefined),
    async close() {
      await worker?.terminate();
    },
  };
}

const compiledWorker = new URL("./worker.js", import.meta.url);

function startWorker(url: URL): Worker {
  const worker = new Worker(url, {
    resourceLimits: { maxOldGenerationSizeMb: WORKER_HEAP_MB },
    // Output of a decoder must not reach stdout, which is reserved for MCP.
    stdout: true,
    stderr: true,
  });
  worker.unref();
  // Without a listener, an error of the thread (out of memory) would end the process.
  worker.on("error", () => {});
  return worker;
}
