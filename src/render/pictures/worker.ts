import { parentPort } from "node:worker_threads";
import { doJob, type PictureJob } from "./job.ts";

/** The worker thread of `scaler.ts`: one answer per job. */
parentPort?.on("message", async (job: PictureJob) => {
  try {
    parentPort?.postMessage({ picture: await doJob(job) });
  } catch (error) {
    const { name, message } = error as Error;
    // WebAssembly trapped (out of memory or stack) and cannot continue: the next picture gets a new thread.
    if (name === "RuntimeError" || name === "RangeError") process.exit(1);
    parentPort?.postMessage({ problem: message });
  }
});
