import type { CallToolResult, LoggingLevel, ServerContext } from "@modelcontextprotocol/server";
import type { Browser } from "../browser/browser.ts";
import type { Log } from "../log.ts";
import type { Options } from "../options.ts";
import type { Sessions } from "../session/sessions.ts";
import type { Store } from "../store/store.ts";
import type { Workspace } from "../workspace/workspace.ts";
import type { ToolArguments } from "./arguments.ts";
import { askUser } from "./ask.ts";
import { render, renderError } from "./render.ts";
import type { Tool, ToolContext } from "./tool.ts";
import type { Toolset } from "./toolset.ts";

/** Clients give up on a silent call after a while; the spec of ours is a sign of life every 10 s. */
const HEARTBEAT_MS = 8_000;

/** What one call may send as log messages: enough to follow it live. The reply has head and tail of everything. */
const LOGGED_CHARS = 1_000_000;

export interface CallParts {
  sessions: Sessions;
  store: Store;
  options: Options;
  /** Makes pictures of figures; without it they are told in words. */
  browser?: Browser | undefined;
  hostFiles?: Workspace;
  local: boolean;
  /** Whose tools they are, if not our own. */
  toolset?: Toolset | undefined;
  log: Log;
}

/** Runs one tool call. The only place where a failure of a tool is caught; what comes back is always a result. */
export async function callTool(
  parts: CallParts,
  call: {
    tool: Tool;
    toolArguments: ToolArguments;
    given: unknown;
    owner: string;
    logLevel: LoggingLevel | undefined;
    /** The client can put a question to its user. */
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

/** Progress counts seconds. A tool that is silent for long is still reported as alive. */
function reportProgress(request: ServerContext["mcpReq"], log: Log): { say(message: string): void; end(): void } {
  const progressToken = request._meta?.progressToken;
  if (progressToken === undefined) return { say: () => {}, end: () => {} };
  const startedMs = performance.now();
  let last = 0;
  let lastMessage = "working";
  const say = (message: string) => {
    const seconds = Math.round(performance.now() - startedMs) / 1000;
    last = Math.max(seconds, Math.round((last + 0.001) * 1000) / 1000);
    lastMessage = message;
    heartbeat.refresh();
    const params = { progressToken, progress: last, message };
    request.notify({ method: "notifications/progress", params }).catch((error) => log.debug(`no progress: ${error}`));
  };
  const heartbeat = setInterval(() => say(lastMessage), HEARTBEAT_MS);
  return { say, end: () => clearInterval(heartbeat) };
}

function passOnOutput(
  request: ServerContext["mcpReq"],
  { logLevel, log }: { logLevel: LoggingLevel | undefined; log: Log },
): ToolContext["printed"] {
  if (logLevel !== "debug" && logLevel !== "info") return () => {};
  let left = LOGGED_CHARS;
  return (stream, text) => {
    if (left <= 0) return;
    left -= text.length;
    const data = left > 0 ? text : `${text.slice(0, left + text.length)}\n[no more output is sent as log messages]\n`;
    const params = { level: "info" as const, logger: stream, data };
    request.notify({ method: "notifications/message", params }).catch((error) => log.debug(`no log message: ${error}`));
  };
}

/** From the least important on. */
const levels: LoggingLevel[] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

function passOnMessages(
  request: ServerContext["mcpReq"],
  { logLevel, log }: { logLevel: LoggingLevel | undefined; log: Log },
): ToolContext["tell"] {
  if (logLevel === undefined) return () => {};
  let left = LOGGED_CHARS;
  return (level, text) => {
    if (levels.indexOf(level) < levels.indexOf(logLevel) || left <= 0) return;
    left -= text.length;
    const data = left > 0 ? text : "[no more log messages are sent for this call]";
    const params = { level, data };
    request.notify({ method: "notifications/message", params }).catch((error) => log.debug(`no log message: ${error}`));
  };
}
