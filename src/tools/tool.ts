import type * as z from "zod";
import type { LateOutput } from "../engine/run/late-outputs.ts";
import type { Session } from "../engine/session/session.ts";
import type { Sessions } from "../engine/sessions/sessions.ts";
import type { Execution, Json, MimeBundle } from "../execution.ts";
import type { ExecuteOptions } from "../kernels/kernel.ts";
import type { Options } from "../options/options.ts";
import type { Store } from "../store/store.ts";
import type { Workspace } from "../workspace/workspace.ts";

/** A tool is data plus `run`: read the input, call a session, return a reply. It builds no MCP content. */
export interface Tool<Input extends z.ZodObject = z.ZodObject> {
  name: string;
  title: string;
  /** For a model: what it does, what it returns, what persists. */
  description: string;
  readOnly: boolean;
  /** Cannot be undone. */
  destructive?: boolean;
  input: Input;
  /**
   * The argument whose values stay JSON text (`JsonText`) during the call: parsed, they take many times the memory, and
   * a cell may be queued for long.
   */
  packed?: string;
  /** A toolset's definition, sent to clients verbatim; otherwise it is derived from `input`. */
  exact?: {
    inputSchema: Record<string, unknown>;
    outputSchema?: Record<string, unknown>;
    /** The description, if it names the kernel. */
    describe?(kernel: string): string;
  };
  run(input: z.infer<Input>, context: ToolContext): Promise<Reply>;
}

/** The identity function, for type inference. */
export function defineTool<Input extends z.ZodObject>(tool: Tool<Input>): Tool<Input> {
  return tool;
}

/** What a tool may use. Created per call. */
export interface ToolContext {
  sessions: Sessions;
  store: Store;
  options: Options;
  /** The caller's tenant. Sessions of other owners are not visible. */
  owner: string;
  /** The client is on this machine (stdio), so it can use host paths. */
  local: boolean;
  /** The user's folder for import_file and export_file, if configured. */
  hostFiles?: Workspace;
  /** Aborted when the client cancels the call. */
  signal: AbortSignal;
  /** Reports progress; a function is called again for each heartbeat. Does nothing if the client did not ask for it. */
  progress: (message: string | (() => string)) => void;
  /** Asks the user; undefined when they do not answer. Absent if the client does not support it. */
  ask?: ExecuteOptions["onInput"];
  /** Sends a cell's output as log messages. Absent if the client did not ask for them. */
  printed?: (stream: "stdout" | "stderr", text: string) => void;
  /** Sends a log message; does nothing if the client did not ask for that level. */
  tell: (level: MessageLevel, text: string) => void;
}

/** Levels of log messages that tools use. */
export type MessageLevel = "debug" | "info" | "warning" | "error";

/** A tool's reply. The renderer turns it into MCP content within the budget. */
export type Reply =
  | { type: "text"; text: string; links?: Link[]; data?: Json }
  | { type: "blob"; text: string; uri: string; bytes: Uint8Array; mimeType: string }
  | ExactReply
  | { type: "execution"; session: Session; execution: Execution; late: LateOutput[]; queued: boolean };

/** A toolset's reply, sent verbatim. */
export interface ExactReply {
  type: "exact";
  blocks: ExactBlock[];
  structured?: Record<string, unknown>;
  isError?: boolean;
  /** The session in which to keep the originals of scaled pictures. */
  sessionId?: string;
}

/**
 * `shown`: a cell's displays; pictures and figures become image blocks. `unchecked`: also pictures that cannot be
 * decoded.
 */
export type ExactBlock =
  | { type: "text"; text: string }
  | { type: "link"; link: Link }
  | { type: "resource"; uri: string; mimeType: string; bytes: Uint8Array }
  | { type: "shown"; bundles: MimeBundle[]; unchecked?: boolean };

/** A link to a resource. */
export interface Link {
  uri: string;
  name: string;
  mimeType?: string;
  sizeBytes?: number;
}
