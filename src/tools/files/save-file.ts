import type { Session } from "../../engine/session/session.ts";
import { CellwrightError } from "../../errors.ts";
import type { Options } from "../../options/options.ts";
import { showBytes } from "../../render/text/amounts.ts";
import type { Workspace } from "../../workspace/workspace.ts";

/** Writes a session's file within the quota, and reports the change. */
export async function saveFile(session: Session, path: string, bytes: Uint8Array, options: Options) {
  await refuseIfFull(session.workspace, bytes.length, options);
  const written = await session.workspace.write(path, bytes);
  session.filesChanged([path]);
  return written;
}

/** Applies the quota of `--disk-mb` to file tools, as it applies to cells. */
async function refuseIfFull(workspace: Workspace, bytes: number, { diskMb }: Options): Promise<void> {
  const { totalBytes } = await workspace.changedSince({ files: new Map(), complete: true });
  if (totalBytes + bytes <= diskMb * 1024 * 1024) return;
  throw new CellwrightError(
    "too_large",
    `The session's files take ${showBytes(totalBytes)}; with ${showBytes(bytes)} more they would exceed --disk-mb (${diskMb} MB).`,
    { hint: "Delete files of the session first." },
  );
}
