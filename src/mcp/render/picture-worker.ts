import { parentPort } from "node:worker_threads";
import type { PictureJob } from "./scaler.ts";

/** The other thread of `scaler.ts`: one answer for each job. */
parentPort?.on("message", async (job: PictureJob) => {
  try {
    // Each brings decoders of its own, and most replies need one of them at most.
    const picture =
      job.type === "draw"
        ? await (await import("./svg.ts")).drawSvg(job)
        : (await import("./scale.ts")).scalePicture(job);
    parentPort?.postMessage({ picture });
  } catch (error) {
    const { name, message } = error as Error;
    // WebAssembly broke off, out of memory or of stack, and cannot go on: the next picture gets a new thread.
    if (name === "RuntimeError" || name === "RangeError") process.exit(1);
    parentPort?.postMessage({ problem: message });
  }
});
