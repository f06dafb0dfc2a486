/**
 * The line protocol between the server and the supervisor: `op id json` to it, `nonce type id json` from it. JSON to
 * and from Python is forwarded unparsed. User code can forge or steal lines.
 */

/** First line to the supervisor, read before any user code runs. All lines from it start with the nonce. */
export interface StartCommand {
  nonce: string;
  pyodideDir: string;
  snapshotFile: string;
  workspaceDir: string;
  siteDir: string;
  /** Packages that are installed from the start. */
  imageDir?: string | undefined;
  /** User folders that code may read: `root` is the path for this process, `at` the path for code. */
  readable: { root: string; at: string }[];
  diskBytes: number;
}

export interface Command {
  /**
   * `execute`: the id is the cell, the JSON a `CellRequest`. `interrupt`: the id is the cell. `ask`: the JSON is a
   * question. `ping`: the id is the number of lines sent before; if fewer arrived, user code has stolen some.
   */
  op: "execute" | "interrupt" | "ask" | "ping";
  id: number;
  json: string;
}

export function formatCommand(op: Command["op"], id: number, value: unknown = null): string {
  return `${op} ${id} ${JSON.stringify(value)}\n`;
}

/** Undefined for the rest of a line that user code has partly read. */
export function parseCommand(line: string): Command | undefined {
  const [, op, id, json] = /^(execute|interrupt|ask|ping) (\d+) (.+)$/s.exec(line) ?? [];
  if (json === undefined) return undefined;
  return { op: op as Command["op"], id: Number(id), json };
}

/** A cell, in the format of `runner.py`. */
export interface CellRequest {
  code: string;
  silent: boolean;
  variables: Record<string, unknown>;
  /** Variables that are bytes, by name, in base64. */
  bytes: Record<string, string>;
  /** See `ScriptOptions`. */
  script?: { filename: string } | undefined;
  /** See `JsonStyle`. */
  value?: { indent: number; quoteNonFinite: boolean } | undefined;
}

export type Report =
  /** `ready`: Python's version. `failed`: why Python did not start. */
  | { type: "ready" | "failed"; id: number; value: string }
  /** Why the worker is unusable: the process should be killed. */
  | { type: "broken"; id: number; value: string }
  /** Answers a ping. `alive`: the worker has shown a sign of life since the previous ping. */
  | { type: "pulse"; id: number; value: { alive: boolean; rssBytes: number; cpuMs: number } }
  /** Output of a cell. */
  | { type: "stdout" | "stderr"; id: number; value: string }
  /** Of a cell, untrusted: an event, its last event, or the message with which Python itself exited. */
  | { type: "event" | "done" | "fatal"; id: number; value: unknown }
  /** To a question, untrusted. */
  | { type: "answer"; id: number; value: unknown };

/** Undefined for a line written by user code. Throws if a line of the supervisor does not contain JSON. */
export function parseReport(line: string, nonce: string): Report | undefined {
  if (!line.startsWith(`${nonce} `)) return undefined;
  const [, type, id, json] = /^(\w+) (\d+) (.*)$/s.exec(line.slice(nonce.length + 1)) ?? [];
  return { type, id: Number(id), value: JSON.parse(json ?? "") } as Report;
}

/** Maximum line length from the supervisor: the largest bundle (8 MB as JSON) plus slack. Longer lines are a flood. */
export const MAX_LINE_BYTES = 12 * 1024 * 1024;
