import type { CellwrightError } from "../../errors.ts";
import type { Log } from "../../log.ts";
import type { SessionRecord, Store } from "../../store/store.ts";
import type { Mark, Workspace } from "../../workspace/workspace.ts";
import type { Run } from "../run/run.ts";
import { stopStatus } from "./stop.ts";

export interface CellRecordParts {
  record: SessionRecord;
  store: Store;
  workspace: Workspace;
  log: Log;
}

/** Saves a cell's record when it has ended. A full disk is reported in the reply, and stops nothing. */
export async function saveCell({ store, record, log }: CellRecordParts, run: Run): Promise<void> {
  try {
    run.notices.push(...(await store.finish(record.id, run.snapshot())));
  } catch (error) {
    log.error(`session ${record.id}: cannot write its history`, error);
    run.notices.push("The result could not be written to the session's history: the disk may be full.");
  }
}

/** Returns the new mark of the workspace, if it could be scanned. */
export async function noteChanges(
  { workspace, record, log }: CellRecordParts,
  run: Run,
  before: Mark,
): Promise<Mark | undefined> {
  try {
    const { changes, complete, mark } = await workspace.changedSince(before);
    run.files = changes;
    if (!complete)
      run.notices.push("The workspace has more than 10,000 files: the list of changed files is incomplete.");
    return mark;
  } catch (error) {
    log.warn(`session ${record.id}: cannot scan the workspace`, error);
    run.notices.push("The workspace could not be scanned for changed files.");
    return undefined;
  }
}

/** Ends a cell that needs a package which cannot be installed: that is the cell's failure, not the server's. */
export async function failBeforeStart(
  parts: CellRecordParts,
  run: Run,
  { message, hint }: CellwrightError,
): Promise<void> {
  run.add({ type: "error", name: "PackageError", message, traceback: [`PackageError: ${message} ${hint}`] });
  run.notices.push("The cell was not run; variables are kept.");
  await run.end("error");
  await saveCell(parts, run);
}

/** Ends a cell that was stopped while it waited. */
export async function stopBeforeStart(parts: CellRecordParts, run: Run): Promise<void> {
  run.neverRan = true;
  run.notices.push("The cell was stopped before it started: nothing was run and nothing is lost.");
  await run.end(stopStatus(run.stopReason ?? "interrupted"));
  if (run.journaled) await saveCell(parts, run);
}
