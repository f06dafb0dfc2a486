import { CellwrightError } from "../errors.ts";
import { showBytes } from "../mcp/render/amounts.ts";
import type { Options } from "../options.ts";
import type { Workspace } from "../workspace/workspace.ts";

/** Refuses to fill a workspace past `--disk-mb`, which cells are held to as well. */
export async function refuseIfFull(workspace: Workspace, bytes: number, { diskMb }: Options): Promise<void> {
  const { totalBytes } = await workspace.changedSince({ files: new Map(), complete: true });
  if (totalBytes + bytes <= diskMb * 1024 * 1024) return;
  throw new CellwrightError(
    "too_large",
    `The session's files take ${showBytes(totalBytes)}; with ${showBytes(bytes)} more they would exceed --disk-mb (${diskMb} MB).`,
    { hint: "Delete files of the session first." },
  );
}
