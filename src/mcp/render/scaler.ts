import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { ScaledPicture, ScaleJob } from "./scale.ts";
import type { DrawJob, DrawnPicture } from "./svg.ts";
import { svgEngine } from "./svg-engine.ts";

/** Time that all pictures of one reply may take together: a client is waiting, and the originals are linked. */
const DEADLINE_MS = 10_000;

/** Beside the pixels, which are not counted here, decoding needs little. */
const WORKER_HEAP_MB = 256;

export type PictureJob = ({ type: "scale" } & ScaleJob) | ({ type: "draw" } & DrawJob);

/** Makes pictures of one reply smaller, and draws its SVG pages, one after another. */
export interface Scaler {
  /** Undefined if the picture cannot be decoded or made to fit, or time is up. Never rejects. */
  scale(job: ScaleJob): Promise<ScaledPicture | undefined>;
  /** Undefined if it cannot be drawn, or time is up. Never rejects. */
  draw(job: Omit<DrawJob, "engine">): Promise<DrawnPicture | undefined>;
  close(): Promise<void>;
}

/**
 * Decoding untrusted pictures is slow and may fail in any way, so a thread does it, started for the first picture of a
 * reply that needs it and ended with the reply. Node 20 cannot run a thread from TypeScript: where there is no compiled
 * worker beside this file, which is in tests from source only, the same function runs here.
 */
export function createScaler({ deadlineMs = DEADLINE_MS, workerUrl = compiledWorker } = {}): Scaler {
  let worker: Worker | undefined;
  let deadline: number | undefined;

  async function work(job: PictureJob): Promise<ScaledPicture | DrawnPicture | undefined> {
    deadline ??= performance.now() + deadlineMs;
    if (performance.now() >= deadline) return undefined;
    if (!existsSync(fileURLToPath(workerUrl))) return workHere(job);
    worker ??= startWorker(workerUrl);
    return ask(worker, job, deadline - performance.now());
  }

  async function ask(running: Worker, job: PictureJob, leftMs: number) {
    const answer = await new Promise<{ picture?: ScaledPicture | DrawnPicture } | undefined>((resolve) => {
      const timer = setTimeout(() => settle(undefined), leftMs);
      const settle = (value: { picture?: ScaledPicture | DrawnPicture } | undefined) => {
        clearTimeout(timer);
        running.off("message", settle).off("exit", gone).off("error", gone);
        resolve(value);
      };
      const gone = () => settle(undefined);
      running.on("message", settle).on("exit", gone).on("error", gone);
      running.postMessage(job);
    });
    if (!answer) {
      // It is gone, or still busy with a picture that nobody waits for any more.
      worker = undefined;
      void running.terminate();
    }
    return answer?.picture;
  }

  // What is wrong with a picture is of no use to the reader; that it is not shown is said.
  return {
    scale: (job) => work({ type: "scale", ...job }).catch(() => undefined) as Promise<ScaledPicture | undefined>,
    async draw(job) {
      try {
        return (await work({ type: "draw", ...job, engine: await svgEngine() })) as DrawnPicture | undefined;
      } catch {
        return undefined;
      }
    },
    async close() {
      await worker?.terminate();
    },
  };
}

async function workHere(job: PictureJob): Promise<ScaledPicture | DrawnPicture | undefined> {
  if (job.type === "draw") return (await import("./svg.ts")).drawSvg(job);
  return (await import("./scale.ts")).scalePicture(job);
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
