import { parentPort } from "node:worker_threads";
import type { PictureJob } from "./scaler.ts";

/** The worker thread of `scaler.ts`: one answer per job. */
parentPort?.on("message", async (job: PictureJob) => {
  try {
    // Imported lazily: each brings its decoders, and most replies need at most one of them.
    const picture =
      job.type === "draw"
        ? await (await import("./svg.ts")).drawSvg(job)
        : (await import("./scale.ts")).scalePicture(job);
    parentPort?.postMessage({ picture });
  } catch (error) {
    const { name, message } = error as Error;
    // WebAssembly trapped (out of memory or stack) and cannot continue: the next picture gets a new thread.
    if (name === "RuntimeError" || name === "RangeError") process.exit(1);
    parentPort?.postMessage({ problem: message });
  }
});
