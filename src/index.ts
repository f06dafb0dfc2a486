/** The public API of the library. */
import { type App, createApp } from "./app.ts";
import type { Session } from "./engine/session/session.ts";
import { LOCAL_OWNER, type SessionSummary } from "./engine/sessions/sessions.ts";
import { defaultOptions, type Options } from "./options/options.ts";

export {
  type CodeSandbox,
  type CodeSandboxOptions,
  codeSandbox,
  type PreparedServer,
  prepare,
  type SandboxResult,
} from "./code-sandbox.ts";
export type { Run } from "./engine/run/run.ts";
export type { RunOptions, Session } from "./engine/session/session.ts";
export type { SessionSummary } from "./engine/sessions/sessions.ts";
export { CellwrightError, type ErrorCode } from "./errors.ts";
export type { Execution, ExecutionEvent, ExecutionStatus, FileChange, Json, MimeBundle, Output } from "./execution.ts";
export type { Variable } from "./kernels/kernel.ts";
export type { Options } from "./options/options.ts";
export type { FileEntry, Workspace } from "./workspace/workspace.ts";

/** The engine without MCP. */
export interface Cellwright {
  createSession(options?: { name?: string; env?: string }): Promise<Session>;
  /** A session by id or name, also of an earlier run of the program. */
  getSession(idOrName: string): Promise<Session>;
  listSessions(): Promise<SessionSummary[]>;
  closeSession(session: Session, options?: { deleteFiles?: boolean }): Promise<void>;
  /** Ends all kernels. Files and history stay. */
  dispose(): Promise<void>;
}

/** Options are those of the command line, in camelCase; times are in milliseconds. */
export async function createCellwright(options: Partial<Options> = {}): Promise<Cellwright> {
  // The embedding program decides which paths its callers may use.
  const all = { ...defaultOptions(), allowEnvPaths: true, ...options };
  const { sessions, dispose }: App = await createApp(all);
  return {
    createSession: (settings) => sessions.create(LOCAL_OWNER, settings),
    getSession: (idOrName) => sessions.get(LOCAL_OWNER, idOrName),
    listSessions: () => sessions.list(LOCAL_OWNER),
    closeSession: (session, settings) => sessions.close(session, settings),
    dispose,
  };
}
