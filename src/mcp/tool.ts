import type * as z from "zod";
import type { Execution, Json, MimeBundle } from "../execution.ts";
import type { ExecuteOptions } from "../kernels/kernel.ts";
import type { Options } from "../options.ts";
import type { LateOutput } from "../session/late-outputs.ts";
import type { Session } from "../session/session.ts";
import type { Sessions } from "../session/sessions.ts";
import type { Store } from "../store/store.ts";
import type { Workspace } from "../workspace/workspace.ts";

/** A tool is data plus `run`: read the input, call a session, say what to reply. It builds no MCP content. */
export interface Tool<Input extends z.ZodObject = z.ZodObject> {
  name: string;
  title: string;
  /** For a model: what it does, what it returns, what persists. */
  description: string;
  readOnly: boolean;
  /** May destroy something that cannot be had back. */
  destructive?: boolean;
  input: Input;
  /**
   * The argument whose values are kept as JSON text (`JsonText`) while the call lasts: as values they take many times
   * the memory, and a cell may wait for long.
   */
  packed?: string;
  /** What clients are told of it word for word, in a toolset; otherwise it is made from `input`. */
  exact?: {
    inputSchema: Record<string, unknown>;
    outputSchema?: Record<string, unknown>;
    /** The description, where it says what the code runs in. */
    describe?(kernel: string): string;
  };
  run(input: z.infer<Input>, context: ToolContext): Promise<Reply>;
}

/** The identity function, there for inference. */
export function defineTool<Input extends z.ZodObject>(tool: Tool<Input>): Tool<Input> {
  return tool;
}

/** What a tool may use. One is made per call. */
export interface ToolContext {
  sessions: Sessions;
  store: Store;
  options: Options;
  /** Whose call it is. Sessions of other owners do not exist for it. */
  owner: string;
  /** The client shares this machine's disk (stdio), so real file paths mean something to it. */
  local: boolean;
  /** The user's own folder that import_file and export_file may touch; absent where there is none. */
  hostFiles?: Workspace;
  /** Aborted when the client cancels the call. */
  signal: AbortSignal;
  /** Tells the client that work goes on; does nothing when it did not ask. */
  progress: (message: string) => void;
  /** Puts a question to the user; undefined when they do not answer. Absent where the client cannot. */
  ask?: ExecuteOptions["onInput"];
  /** Passes on what a cell prints as log messages; does nothing when the client did not ask. */
  printed: (stream: "stdout" | "stderr", text: string) => void;
  /** Sends a log message of that level; does nothing when the client did not ask for those. */
  tell: (level: MessageLevel, text: string) => void;
}

/** Levels of log messages, as far as tools use them. */
export type MessageLevel = "debug" | "info" | "warning" | "error";

/** What a tool says. The renderer turns it into MCP content, once, within the budget. */
export type Reply =
  | { type: "text"; text: string; links?: Link[]; data?: Json }
  | { type: "blob"; text: string; uri: string; bytes: Uint8Array; mimeType: string }
  | ExactReply
  | { type: "execution"; session: Session; execution: Execution; late: LateOutput[]; queued: boolean };

/** Word for word, in a toolset. */
export interface ExactReply {
  type: "exact";
  blocks: ExactBlock[];
  structured?: Record<string, unknown>;
  isError?: boolean;
  /** Where originals of pictures are kept that are shown smaller. */
  sessionId?: string;
}

/**
 * `shown`: what a cell displayed, of which pictures and figures become image blocks. `unchecked`: pictures too that
 * cannot be decoded.
 */
export type ExactBlock =
  | { type: "text"; text: string }
  | { type: "link"; link: Link }
  | { type: "resource"; uri: string; mimeType: string; bytes: Uint8Array }
  | { type: "shown"; bundles: MimeBundle[]; unchecked?: boolean };

/** Something that can be read as a resource. */
export interface Link {
  uri: string;
  name: string;
  mimeType?: string;
  sizeBytes?: number;
}
