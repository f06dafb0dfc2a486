/** What embedders may import. */
import { type App, createApp } from "./app.ts";
import { createLog } from "./log.ts";
import { defaultOptions, type Options } from "./options.ts";
import type { Session } from "./session/session.ts";
import { LOCAL_OWNER, type SessionSummary } from "./session/sessions.ts";

export {
  type CodeSandbox,
  type CodeSandboxOptions,
  codeSandbox,
  type PreparedServer,
  prepare,
  type SandboxResult,
} from "./code-sandbox.ts";
export { CellwrightError, type ErrorCode } from "./errors.ts";
export type { Execution, ExecutionEvent, ExecutionStatus, FileChange, Json, MimeBundle, Output } from "./execution.ts";
export type { Variable } from "./kernels/kernel.ts";
export type { Options } from "./options.ts";
export type { Run } from "./session/run.ts";
export type { RunOptions, Session } from "./session/session.ts";
export type { SessionSummary } from "./session/sessions.ts";
export type { FileEntry, Workspace } from "./workspace/workspace.ts";

/** The engine without MCP. */
export interface Cellwright {
  createSession(options?: { name?: string; env?: string }): Promise<Session>;
  /** A session of this or an earlier run of the program, by id or name. */
  getSession(idOrName: string): Promise<Session>;
  listSessions(): Promise<SessionSummary[]>;
  closeSession(session: Session, options?: { deleteFiles?: boolean }): Promise<void>;
  /** Ends all kernels. Files and history stay. */
  dispose(): Promise<void>;
}

/** Options are those of the command line, in camelCase; times are in milliseconds. */
export async function createCellwright(options: Partial<Options> = {}): Promise<Cellwright> {
  // Who embeds it decides what its callers may name.
  const all = { ...defaultOptions(), allowEnvPaths: true, ...options };
  const { sessions, dispose }: App = await createApp(all, createLog(all.logLevel));
  return {
    createSession: (settings) => sessions.create(LOCAL_OWNER, settings),
    getSession: (idOrName) => sessions.get(LOCAL_OWNER, idOrName),
    listSessions: () => sessions.list(LOCAL_OWNER),
    closeSession: (session, settings) => sessions.close(session, settings),
    dispose,
  };
}
