import {
  type CacheHint,
  LOG_LEVEL_META_KEY,
  type LoggingLevel,
  type McpServer,
  ProtocolError,
  ProtocolErrorCode,
  Server,
} from "@modelcontextprotocol/server";
import { LOCAL_OWNER } from "../engine/sessions/sessions.ts";
import type { Backends } from "../kernels/kernel.ts";
import { nearest } from "../nearest.ts";
import type { Tool } from "../tools/tool.ts";
import type { Toolset } from "../toolsets/toolset.ts";
import { type ArgumentsSchema, describeArguments } from "./arguments.ts";
import { type CallParts, callTool } from "./calls.ts";
import { listKernels, writeInstructions } from "./instructions.ts";
import { offerResources } from "./resources.ts";
import { offerToolsetResources } from "./toolset-resources.ts";

/** Tools never change while the program runs; this bounds how long a client uses a stale list after a restart. */
const TOOLS_CACHE: CacheHint = { ttlMs: 5 * 60_000, cacheScope: "private" };

/** `tools/list` waits at most this long for a kernel's name. */
const KERNEL_LIST_MS = 5_000;

export interface ServerParts extends CallParts {
  tools: Tool[];
  /** The remote servers that sessions are balanced over, for the status resource. */
  backends?: Backends | undefined;
  version: string;
  /** Called once, after a client's first answer: the time to prepare for a first cell. */
  onFirstUse?: () => void;
}

/** The client that a server is built for. All fields but `owner` come from the SDK. */
export interface ServerContext {
  era: "legacy" | "modern";
  owner?: string;
  /** Set for a server that serves one HTTP request. */
  requestInfo?: Request;
}

/** Builds a server for one connection, or for one request where the protocol is stateless. */
export type ServerFactory = (context: ServerContext) => Promise<Server | McpServer>;

/** All state is in `parts`. Servers are cheap and short-lived, and hold only a connection's subscriptions. */
export function createServerFactory(parts: ServerParts): ServerFactory {
  const tools = new Map(parts.tools.map((tool) => [tool.name, { tool, toolArguments: describeArguments(tool) }]));
  const { toolset } = parts;
  let listed: Promise<ReturnType<typeof describe | typeof describeExactly>[]> | undefined;
  const list = async () => {
    const kernel = parts.tools.some(({ exact }) => exact?.describe) ? await kernelName(parts) : "";
    return [...tools.values()].map(({ tool, toolArguments }) =>
      tool.exact ? describeExactly(tool, tool.exact, kernel) : describe(tool, toolArguments.schema),
    );
  };
  let instructions: Promise<string | undefined> | undefined;
  const firstUse = once(() => setImmediate(() => parts.onFirstUse?.()));

  return async ({ era, owner = LOCAL_OWNER, requestInfo }) => {
    instructions ??= toolset ? Promise.resolve(toolset.server.instructions) : writeInstructions(parts);
    const server = new Server(
      toolset
        ? { name: toolset.server.name, version: toolset.server.version }
        : { name: "cellwright", title: "Cellwright", version: parts.version },
      {
        capabilities: { tools: {}, logging: {}, ...resourcesOf(toolset) },
        instructions: await instructions,
        cacheHints: { "tools/list": TOOLS_CACHE },
      },
    );
    let connectionLogLevel: LoggingLevel | undefined;
    server.oninitialized = firstUse;
    server.onerror = (error) => parts.log.debug(`mcp: ${error.message}`);
    if (era === "legacy") {
      server.setRequestHandler("logging/setLevel", ({ params }) => {
        connectionLogLevel = params.level;
        return {};
      });
    }
    server.setRequestHandler("tools/list", async () => {
      firstUse();
      listed ??= list();
      return { tools: await listed };
    });
    server.setRequestHandler("tools/call", ({ params }, { mcpReq: request }) => {
      const found = tools.get(params.name);
      if (!found && toolset)
        return { content: [{ type: "text", text: toolset.unknownTool(params.name) }], isError: true };
      if (!found) throw unknownTool(params.name, [...tools.keys()]);
      const logLevel = era === "modern" ? requestLogLevel(request.envelope) : connectionLogLevel;
      // The modern protocol has no elicitation during a call.
      const canAsk = era === "legacy" && server.getClientCapabilities()?.elicitation !== undefined;
      return callTool(parts, { ...found, given: params.arguments, owner, logLevel, canAsk, request });
    });
    if (toolset?.withoutResources) return server;
    if (toolset) offerToolsetResources(server, parts, { toolset, owner });
    else offerResources(server, parts, { owner, era, watch: requestInfo === undefined });
    return server;
  };
}

function resourcesOf(toolset: Toolset | undefined) {
  if (toolset?.withoutResources) return {};
  return { resources: toolset ? {} : { subscribe: true, listChanged: true } };
}

function describe(tool: Tool, inputSchema: ArgumentsSchema) {
  return {
    name: tool.name,
    title: tool.title,
    description: tool.description,
    inputSchema,
    annotations: {
      readOnlyHint: tool.readOnly,
      destructiveHint: tool.destructive ?? false,
      idempotentHint: false,
      openWorldHint: false,
    },
  };
}

function describeExactly(
  { name, title, description }: Tool,
  { inputSchema, outputSchema, describe: describeFor }: NonNullable<Tool["exact"]>,
  kernel: string,
) {
  return {
    name,
    ...(title ? { title } : {}),
    description: describeFor?.(kernel) ?? description,
    inputSchema: inputSchema as ArgumentsSchema,
    ...(outputSchema ? { outputSchema: outputSchema as ArgumentsSchema } : {}),
  };
}

async function kernelName({ sessions }: ServerParts): Promise<string> {
  const [kernel] = await listKernels(sessions, KERNEL_LIST_MS);
  return kernel?.description ?? "Python";
}

/** Validated by the SDK, but missing from its type of the envelope. */
function requestLogLevel(envelope: object | undefined): LoggingLevel | undefined {
  return (envelope as { [LOG_LEVEL_META_KEY]?: LoggingLevel } | undefined)?.[LOG_LEVEL_META_KEY];
}

function unknownTool(name: string, names: string[]): ProtocolError {
  const [meant] = nearest(name.slice(0, 100), names);
  const advice = meant ? `Did you mean \`${meant}\`?` : `The tools are ${names.join(", ")}.`;
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${name.slice(0, 100)}. ${advice}`);
}

function once(action: () => void): () => void {
  let done = false;
  return () => {
    if (!done) action();
    done = true;
  };
}
