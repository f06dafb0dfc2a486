import type { Execution } from "../execution.ts";

/** The notice of a cell whose end was never recorded. */
export const LOST_NOTICE = "The program ended while this cell ran; its outcome is unknown.";

/** What is kept of sessions. Every store passes `test/contracts/store.ts`. */
export interface Store {
  /** All saved sessions that were not deleted, including those from before a restart. */
  sessions(): Promise<SessionRecord[]>;

  /** Claims a session for this process. False while another live process has it. */
  claim(sessionId: string): Promise<boolean>;
  /** Describes the other process that has claimed the session, for a message; undefined if none has. */
  claimedBy(sessionId: string): Promise<string | undefined>;
  release(sessionId: string): Promise<void>;

  saveSession(record: SessionRecord): Promise<void>;
  /** Written before the cell runs. */
  begin(sessionId: string, execution: Execution): Promise<void>;
  /**
   * Written before the reply is sent; again for the same execution if late output arrived. Returns notices about what
   * could not be kept.
   */
  finish(sessionId: string, execution: Execution): Promise<string[]>;
  /**
   * Executions in the order they started. A running one is as `begin` wrote it. One whose process is gone or has
   * released the session has status `kernel_died` and a notice.
   */
  history(sessionId: string): Promise<Execution[]>;
  /** The same without outputs, which may not fit into memory. */
  cells(sessionId: string): Promise<PastCell[]>;
  /** One execution with its outputs. */
  execution(sessionId: string, executionId: string): Promise<Execution | undefined>;

  /**
   * Keeps bytes and returns their URI, `cell://{sessionId}/.outputs/{name}`. The same bytes give the same URI. Older
   * blobs may be evicted; throws `storage_full` if the bytes do not fit at all.
   */
  putBlob(sessionId: string, bytes: Uint8Array, mimeType: string): Promise<string>;
  /** A text that is written while it arrives; everything past `maxBytes` is dropped. */
  openSpill(sessionId: string, name: string, maxBytes: number): Spill;
  getBlob(uri: string): Promise<Blob | undefined>;

  /** Deletes the session and its files. */
  forget(sessionId: string): Promise<void>;
  /** Removes empty folders of sessions that were never saved, if unused for that long. */
  removeOrphans?(unusedForMs: number): Promise<void>;
  /** The session's folder on this machine; created with mode 0700. */
  folder(sessionId: string): Promise<string>;
  dispose(): Promise<void>;
}

/** A copy of sessions on another machine: everything in a session's folder except its files. */
export interface Mirror {
  /** Copies what has changed. */
  push(sessionId: string, folder: string): Promise<void>;
  /** Claims a session and updates its folder from the mirror. False while another live Cellwright uses it. */
  claim(sessionId: string, folder: string): Promise<boolean>;
  /** Sessions in the mirror that are not in use. */
  list(): Promise<string[]>;
  /** Copies a session into a new folder. */
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

/** Owner of all sessions where requests are not authenticated. */
export const LOCAL_OWNER = "local";

export interface SessionRecord {
  id: string;
  /** Who may use it. */
  owner: string;
  name?: string;
  env?: string;
  /** Labels of a guest. */
  labels?: Record<string, string>;
  createdAt: string;
  lastUsedAt: string;
  /** Cells run so far. */
  cells: number;
  /** How many of them ran before the last reset, and are not replayed. */
  cellsBeforeReset?: number;
  /** Set when the session was closed or expired: its history and files can still be read. */
  endedAt?: string;
}
