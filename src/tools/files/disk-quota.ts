import { CellwrightError } from "../../errors.ts";
import type { Options } from "../../options/options.ts";
import { showBytes } from "../../render/text/amounts.ts";
import type { Workspace } from "../../workspace/workspace.ts";

/** Applies the quota of `--disk-mb` to file tools, as it applies to cells. */
export async function refuseIfFull(workspace: Workspace, bytes: number, { diskMb }: Options): Promise<void> {
  const { totalBytes } = await workspace.changedSince({ files: new Map(), complete: true });
  if (totalBytes + bytes <= diskMb * 1024 * 1024) return;
  throw new CellwrightError(
    "too_large",
    `The session's files take ${showBytes(totalBytes)}; with ${showBytes(bytes)} more they would exceed --disk-mb (${diskMb} MB).`,
    { hint: "Delete files of the session first." },
  );
}
