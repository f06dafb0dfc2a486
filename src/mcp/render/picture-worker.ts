import { parentPort } from "node:worker_threads";
import { type ScaleJob, scalePicture } from "./scale.ts";

/** The other thread of `scaler.ts`: one answer for each job, in order. */
parentPort?.on("message", (job: ScaleJob) => {
  try {
    parentPort?.postMessage({ picture: scalePicture(job) });
  } catch (error) {
    parentPort?.postMessage({ problem: (error as Error).message });
  }
});
