import type { ScaledPicture, ScaleJob } from "./scale.ts";
import type { DrawJob } from "./svg.ts";

export type PictureJob = ({ type: "scale" } & ScaleJob) | ({ type: "draw" } & DrawJob);

/** Imports lazily: each kind brings its decoders, and most replies need at most one of them. */
export async function doJob(job: PictureJob): Promise<ScaledPicture | undefined> {
  if (job.type === "draw") return (await import("./svg.ts")).drawSvg(job);
  return (await import("./scale.ts")).scalePicture(job);
}
