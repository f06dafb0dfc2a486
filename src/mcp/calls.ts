import type { CallToolResult, LoggingLevel, ServerContext } from "@modelcontextprotocol/server";
import type { Browser } from "../browser/browser.ts";
import type { Sessions } from "../engine/sessions/sessions.ts";
import type { Log } from "../log.ts";
import type { Options } from "../options/options.ts";
import { render, renderError } from "../render/reply.ts";
import type { Store } from "../store/store.ts";
import type { Tool, ToolContext } from "../tools/tool.ts";
import type { Toolset } from "../toolsets/toolset.ts";
import type { Workspace } from "../workspace/workspace.ts";
import type { ToolArguments } from "./arguments.ts";
import { askUser } from "./ask.ts";

/** Interval of progress notifications. Clients show them, and time out on a silent call. */
const HEARTBEAT_MS = 2_000;

/** Log messages of one call, in characters: enough to follow it live. The reply has head and tail of the output. */
const LOGGED_CHARS = 1_000_000;

export interface CallParts {
  sessions: Sessions;
  store: Store;
  options: Options;
  /** Draws figures; without it they are described in text. */
  browser?: Browser | undefined;
  hostFiles?: Workspace;
  local: boolean;
  /** Absent for the native tools. */
  toolset?: Toolset | undefined;
  log: Log;
}

/** Runs one tool call. The only place that catches a tool's failure; always returns a result. */
export async function callTool(
  parts: CallParts,
  call: {
    tool: Tool;
    toolArguments: ToolArguments;
    given: unknown;
    owner: string;
    logLevel: LoggingLevel | undefined;
    /** The client supports elicitation. */
    canAsk: boolean;
    request: ServerContext["mcpReq"];
  },
): Promise<CallToolResult> {
  const { sessions, store, options, browser, hostFiles, local, toolset, log } = parts;
  const progress = reportProgress(call.request, log);
  try {
    const context: ToolContext = {
      sessions,
      store,
      options,
      hostFiles,
      local,
      owner: call.owner,
      signal: call.request.signal,
      progress: progress.say,
      ask: call.canAsk ? askUser(call.request, log) : undefined,
      printed: passOnOutput(call.request, { logLevel: call.logLevel, log }),
      tell: passOnMessages(call.request, { logLevel: call.logLevel, log }),
    };
    const input = call.toolArguments.parse(call.given);
    return await render(await call.tool.run(input, context), { options, store, browser });
  } catch (error) {
    return renderError(error, log, toolset && ((known) => toolset.explain?.(known, call.tool.name) ?? known.message));
  } finally {
    progress.end();
  }
}

/** Progress counts seconds. A heartbeat repeats the tool's newest message. */
function reportProgress(request: ServerContext["mcpReq"], log: Log): { say: ToolContext["progress"]; end(): void } {
  const progressToken = request._meta?.progressToken;
  if (progressToken === undefined) return { say: () => {}, end: () => {} };
  const startedMs = performance.now();
  let last = 0;
  let words: () => string = () => "working";
  const send = () => {
    const seconds = Math.round(performance.now() - startedMs) / 1000;
    last = Math.max(seconds, Math.round((last + 0.001) * 1000) / 1000);
    const params = { progressToken, progress: last, message: words() };
    request
      .notify({ method: "notifications/progress", params })
      .catch((error) => log.debug(`progress notification failed: ${error}`));
  };
  const heartbeat = setInterval(send, HEARTBEAT_MS);
  return {
    say(message) {
      words = typeof message === "string" ? () => message : message;
      if (typeof message !== "string") return;
      heartbeat.refresh();
      send();
    },
    end: () => clearInterval(heartbeat),
  };
}

function passOnOutput(
  request: ServerContext["mcpReq"],
  { logLevel, log }: { logLevel: LoggingLevel | undefined; log: Log },
): ToolContext["printed"] {
  if (logLevel !== "debug" && logLevel !== "info") return undefined;
  const send = createLogSender(request, log);
  return (stream, text) =>
    send({ level: "info", logger: stream }, text, (room) => {
      return `${text.slice(0, room)}\n[log limit reached; the reply has the rest of the output]\n`;
    });
}

/** By ascending severity. */
const levels: LoggingLevel[] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

function passOnMessages(
  request: ServerContext["mcpReq"],
  { logLevel, log }: { logLevel: LoggingLevel | undefined; log: Log },
): ToolContext["tell"] {
  if (logLevel === undefined) return () => {};
  const send = createLogSender(request, log);
  return (level, text) => {
    if (levels.indexOf(level) < levels.indexOf(logLevel)) return;
    send({ level }, text, () => "[log limit reached for this call]");
  };
}

/** Sends a call's log messages. The text that reaches the limit is replaced by `lastOf(the characters left)`. */
function createLogSender(request: ServerContext["mcpReq"], log: Log) {
  let left = LOGGED_CHARS;
  return (params: { level: LoggingLevel; logger?: string }, text: string, lastOf: (room: number) => string): void => {
    if (left <= 0) return;
    const data = text.length < left ? text : lastOf(left);
    left -= text.length;
    request
      .notify({ method: "notifications/message", params: { ...params, data } })
      .catch((error) => log.debug(`no log message: ${error}`));
  };
}
