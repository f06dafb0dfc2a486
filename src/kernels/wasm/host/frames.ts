/** The lines between our process and the supervisor. Both sides are ours; user code can still forge or steal a line. */

/** First line to the supervisor, read before any user code exists; all later lines from it begin with the nonce. */
export interface StartCommand {
  nonce: string;
  pyodideDir: string;
  snapshotFile: string;
  workspaceDir: string;
  siteDir: string;
  /** Packages that are there from the start. */
  imageDir?: string | undefined;
  /** Folders of the user's that code may read: where this process finds them, and where code does. */
  readable: { root: string; at: string }[];
  diskBytes: number;
}

export type Command =
  | { op: "execute"; cell: number; request: CellRequest }
  | { op: "interrupt"; cell: number }
  | { op: "ask"; id: number; question: string }
  | { op: "ping" };

export interface CellRequest {
  code: string;
  silent: boolean;
  /** A JSON object: variables by name. */
  variables: string;
  /** Variables that are bytes, by name, in base64. */
  bytes: Record<string, string>;
  /** See `ScriptOptions`. */
  script?: { filename: string } | undefined;
  /** See `JsonStyle`. */
  value?: { indent: number; quoteNonFinite: boolean } | undefined;
}

export type Report =
  | { type: "ready"; python: string }
  | { type: "failed"; message: string }
  /** The supervisor has this execute in its hands; without it the line was lost or stolen. */
  | { type: "ack"; cell: number }
  | { type: "stream"; cell: number; name: "stdout" | "stderr"; text: string }
  | { type: "event"; cell: number; event: unknown }
  | { type: "answer"; id: number; answer: unknown }
  /** Answers a ping: whether the worker gave a sign of life since the ping before, and what the process uses. */
  | { type: "pulse"; alive: boolean; rssBytes: number; cpuMs: number }
  /** The worker is of no more use; the process should be killed. */
  | { type: "broken"; reason: string };

/** Longest line from the supervisor: the largest bundle (8 MB as JSON) with room. Longer is a flood, not a frame. */
export const MAX_LINE_BYTES = 12 * 1024 * 1024;
