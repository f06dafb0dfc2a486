import type { ExecuteOptions } from "../kernels/kernel.ts";
import type { PastCell, SessionRecord } from "../store/store.ts";
import type { Workspace } from "../workspace/workspace.ts";
import type { Run } from "./run/run.ts";

/** Options that a guest adds to every Python cell, including replayed ones. */
export type CellOptions = Pick<ExecuteOptions, "classic" | "commands">;

/** How a guest, such as a toolset, changes the engine. All members are optional; without them the defaults apply. */
export interface Guest {
  cellOptions?: CellOptions;
  /** Makes the id of a new session. */
  newSessionId?(): string;
  /** Delete a session that was idle for its lifetime, instead of only ending its kernel. */
  forgetsIdleSessions?: boolean;
  /** Called for each session deleted for that reason. */
  sessionForgotten?(record: SessionRecord): void;
  /** The kernel is done with the cell. Files written now count as the cell's. */
  cellEnded?(run: Run, session: GuestSession): Promise<void>;
  /** The cell was saved to the history. */
  cellSaved?(run: Run, session: GuestSession): Promise<void>;
  /** Which cells a replay runs, instead of all that succeeded. */
  cellsToReplay?(succeeded: string[], session: GuestSession): Promise<string[]>;
}

/** What a guest sees of a session. */
export interface GuestSession {
  readonly id: string;
  readonly record: Readonly<SessionRecord>;
  readonly workspace: Workspace;
  /** The folder that contains the session's folder, if that is on another machine. */
  readonly parentFolder: Workspace | undefined;
  /** All cells so far, without their outputs. */
  cells(): Promise<PastCell[]>;
}
