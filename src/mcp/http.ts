import type { IncomingMessage, ServerResponse } from "node:http";
import { createMcpHandler, isLegacyRequest, type McpHttpHandler } from "@modelcontextprotocol/server";
import type { Sessions } from "../engine/sessions/sessions.ts";
import type { Route } from "../http/app.ts";
import { createBodyReader } from "../http/body.ts";
import { refuse } from "../http/refuse.ts";
import type { Log } from "../log.ts";
import type { HttpWords } from "../toolsets/toolset.ts";
import { MessageError, parseMessage } from "./json.ts";
import { LegacyConnections } from "./legacy.ts";
import { LegacyRequests } from "./legacy-requests.ts";
import { watchOwnFiles } from "./resources.ts";
import type { ServerFactory } from "./server.ts";
import { toWebRequest, writeWebResponse } from "./web.ts";

export interface McpRouteParts {
  createServer: ServerFactory;
  maxRequestBytes: number;
  log: Log;
  /** Source of file change notifications; without it clients get none. */
  sessions?: Pick<Sessions, "watchFiles">;
  /** Serve legacy clients without connections: one server per request. */
  stateless?: boolean;
  /** A toolset's error texts. */
  words?: HttpWords | undefined;
  /** Limits of legacy connections, for tests. */
  legacy?: { idleMs?: number; max?: number };
}

/** `/mcp`: stateless requests of the modern protocol, and one connection per legacy client. */
export function createMcpRoute(parts: McpRouteParts): Route {
  const { createServer, maxRequestBytes, log, sessions } = parts;
  const readBody = createBodyReader(maxRequestBytes);
  const connections = parts.stateless
    ? new LegacyRequests({ createServer, log })
    : new LegacyConnections({ createServer, log, words: parts.words, ...parts.legacy });
  const moderns = new Map<string, Modern>();

  /** One per owner, so that notifications never cross tenants. */
  const modernOf = (owner: string): Modern => {
    const known = moderns.get(owner);
    if (known) return known;
    const handler = createMcpHandler((context) => createServer({ ...context, owner }), {
      legacy: "reject",
      responseMode: "sse",
      onerror: (error) => log.debug(`http: ${error.message}`),
    });
    const stopWatching =
      sessions &&
      watchOwnFiles(sessions, owner, {
        listChanged: () => handler.notify.resourcesChanged(),
        updated: (uri) => handler.notify.resourceUpdated(uri),
      });
    const modern = { handler, stopWatching };
    moderns.set(owner, modern);
    return modern;
  };

  return {
    async handle(request, response, { owner }) {
      let body: unknown;
      if (request.method === "POST") {
        try {
          body = parseMessage(await readBody(request, response, { owner }));
        } catch (error) {
          if (error instanceof MessageError) return refuse(response, 400, error.message, { code: error.code });
          throw error;
        }
      } else if (namesModernRevision(request)) {
        return refuse(response, 405, "Method not allowed", { headers: { allow: "POST" } });
      }
      if (await isLegacyRequest(toWebRequest(request), body)) {
        return connections.handle(request, response, { body, owner });
      }
      await serveModern(modernOf(owner).handler, { request, response, body });
    },
    async close() {
      for (const { stopWatching } of moderns.values()) stopWatching?.();
      await Promise.all([connections.close(), ...[...moderns.values()].map(({ handler }) => handler.close())]);
    },
  };
}

interface Modern {
  handler: McpHttpHandler;
  stopWatching: (() => void) | undefined;
}

/** A client that disconnects cancels its request. */
async function serveModern(
  handler: McpHttpHandler,
  { request, response, body }: { request: IncomingMessage; response: ServerResponse; body: unknown },
): Promise<void> {
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const answer = await handler.fetch(toWebRequest(request, gone.signal), { parsedBody: body });
  await writeWebResponse(answer, response);
}

/** Protocol versions are dates; those from 2026 on use POST only. */
function namesModernRevision({ headers }: IncomingMessage): boolean {
  const revision = headers["mcp-protocol-version"];
  return typeof revision === "string" && revision >= "2026";
}
