import type { CellwrightError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { SessionRecord, Store } from "../store/store.ts";
import type { Workspace } from "../workspace/workspace.ts";
import { type Chronicle, succeeded } from "./chronicle.ts";
import type { SaveDisplays } from "./display-files.ts";
import type { Run } from "./run.ts";
import { stopStatus } from "./stop.ts";

export interface BookkeepingParts {
  record: SessionRecord;
  store: Store;
  workspace: Workspace;
  /** The cells that succeeded, as others keep them. */
  chronicle?: Chronicle | undefined;
  /** Makes files of the pictures that cells show. */
  saveDisplays?: SaveDisplays | undefined;
  log: Log;
}

/** What is written down of a cell when it is over. A disk that is full is told in its reply, and stops nothing. */
export class Bookkeeping {
  readonly #parts: BookkeepingParts;

  constructor(parts: BookkeepingParts) {
    this.#parts = parts;
  }

  async save(run: Run): Promise<void> {
    const { store, record, log } = this.#parts;
    try {
      run.notices.push(...(await store.finish(record.id, run.snapshot())));
    } catch (error) {
      log.error(`session ${record.id}: cannot write its history`, error);
      run.notices.push("The result could not be written to the session's history: the disk may be full.");
    }
  }

  /** For those who keep their own list of cells that succeeded. */
  async record(run: Run): Promise<void> {
    const { store, record, chronicle, log } = this.#parts;
    if (!chronicle || succeeded([run]).length === 0) return;
    const before = async () => succeeded((await store.cells(record.id)).filter(({ id }) => id !== run.id));
    try {
      await chronicle.add(run.code, before);
    } catch (error) {
      log.warn(`session ${record.id}: cannot write its list of cells`, error);
    }
  }

  async saveDisplays(run: Run): Promise<void> {
    const { saveDisplays, workspace, record, log } = this.#parts;
    if (!saveDisplays) return;
    try {
      run.savedDisplays = await saveDisplays(run.snapshot().outputs, workspace);
    } catch (error) {
      log.warn(`session ${record.id}: what a cell showed could not be saved`, error);
      run.notices.push("What the cell showed could not be saved as files: the disk may be full.");
    }
  }

  async noteChanges(run: Run, mark: Awaited<ReturnType<Workspace["mark"]>>): Promise<void> {
    const { workspace, record, log } = this.#parts;
    try {
      const { changes, complete } = await workspace.changedSince(mark);
      run.files = changes;
      if (!complete)
        run.notices.push("The workspace holds more than 10 000 files: the list of changed files is not complete.");
    } catch (error) {
      log.warn(`session ${record.id}: cannot look through the workspace`, error);
      run.notices.push("The workspace could not be looked through for changed files.");
    }
  }

  /** What a cell asks for and cannot have is its own failure, not ours. */
  async couldNotRun(run: Run, { message, hint }: CellwrightError): Promise<void> {
    run.add({ type: "error", name: "PackageError", message, traceback: [`PackageError: ${message} ${hint}`] });
    run.notices.push("The cell was not run; variables are kept.");
    await run.end("error");
    await this.save(run);
  }

  async neverRan(run: Run): Promise<void> {
    run.neverRan = true;
    run.notices.push("The cell was stopped before it started: nothing was run and nothing is lost.");
    await run.end(stopStatus(run.stopReason ?? "interrupted"));
    if (run.journaled) await this.save(run);
  }
}
