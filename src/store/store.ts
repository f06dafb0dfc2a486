import type { Execution } from "../execution.ts";

/** What `history` says of a cell whose end nobody wrote down. */
export const LOST_NOTICE = "The program ended while this cell ran; its outcome is unknown.";

/** What outlives a cell. Every store passes `test/contracts/store.ts`. */
export interface Store {
  /** All sessions that have been saved and not forgotten, also those of an earlier run of the program. */
  sessions(): Promise<SessionRecord[]>;

  /** Claims a session for this process. False while another live process has it. */
  claim(sessionId: string): Promise<boolean>;
  /** Who else has the session now, as a phrase for people, or undefined if nobody does. */
  claimedBy(sessionId: string): Promise<string | undefined>;
  release(sessionId: string): Promise<void>;

  saveSession(record: SessionRecord): Promise<void>;
  /** Written before the cell runs. */
  begin(sessionId: string, execution: Execution): Promise<void>;
  /**
   * Written before the reply is sent; again for the same execution if late output arrived. Returns what could not be
   * kept, as sentences for the reply.
   */
  finish(sessionId: string, execution: Execution): Promise<string[]>;
  /**
   * Executions in the order they began. One that is still running is as `begin` wrote it; one whose end nobody can write
   * any more, because its process is gone or released the session, has status `kernel_died` and says so in a notice.
   */
  history(sessionId: string): Promise<Execution[]>;
  /** The same without what they showed, which may be far more than fits into memory. */
  cells(sessionId: string): Promise<PastCell[]>;
  /** One of them with what it showed. */
  execution(sessionId: string, executionId: string): Promise<Execution | undefined>;

  /**
   * Keeps bytes and returns their URI, `cell://{sessionId}/.outputs/{name}`. The same bytes twice give the same URI. Older
   * ones may give way to them; throws `storage_full` where they do not fit at all.
   */
  putBlob(sessionId: string, bytes: Uint8Array, mimeType: string): Promise<string>;
  /** A text that is written while it comes, up to `maxBytes`; what is over that is dropped. */
  openSpill(sessionId: string, name: string, maxBytes: number): Spill;
  getBlob(uri: string): Promise<Blob | undefined>;

  /** Removes all that is kept of the session, its files included. */
  forget(sessionId: string): Promise<void>;
  /** Removes what is left of sessions that never came to be: empty folders that nobody touched for so long. */
  removeOrphans?(unusedForMs: number): Promise<void>;
  /** The session's own folder on this machine; created private to the user. */
  folder(sessionId: string): Promise<string>;
  dispose(): Promise<void>;
}

/** A second home, on another machine, for what is kept of sessions: all that is in a session's folder but its files. */
export interface Mirror {
  /** Copies what is new. */
  push(sessionId: string, folder: string): Promise<void>;
  /** Brings the folder of a session up to date, to go on with it. False while another live program uses the session. */
  claim(sessionId: string, folder: string): Promise<boolean>;
  /** The sessions there that nobody uses. */
  list(): Promise<string[]>;
  /** Copies all of a session into a folder, which is made. */
  pull(sessionId: string, folder: string): Promise<void>;
  forget(sessionId: string): Promise<void>;
}

export type PastCell = Omit<Execution, "outputs">;

export interface Blob {
  bytes: Uint8Array;
  mimeType: string;
}

export interface Spill {
  readonly uri: string;
  write(text: string): void;
  close(): Promise<void>;
}

/** The owner of sessions where callers do not have to say who they are. */
export const LOCAL_OWNER = "local";

export interface SessionRecord {
  id: string;
  /** Who may use it; the local user where there is no authentication. */
  owner: string;
  name?: string;
  env?: string;
  /** What its environment is called to whoever chose it, and its interpreter; where somebody wants to know. */
  envLabel?: string;
  python?: string;
  createdAt: string;
  lastUsedAt: string;
  /** Cells run so far. */
  cells: number;
  /** As many of them ran before the session was last reset: nothing of them is to come back. */
  cellsBeforeReset?: number;
  /** Set when the session was closed or expired: its history and files are still there to read. */
  endedAt?: string;
}
