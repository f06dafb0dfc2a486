import type { IncomingMessage, ServerResponse } from "node:http";
import { createMcpHandler, isLegacyRequest, type McpHttpHandler } from "@modelcontextprotocol/server";
import type { Route } from "../http/app.ts";
import { createBodyReader } from "../http/body.ts";
import { refuse } from "../http/refuse.ts";
import type { Log } from "../log.ts";
import type { Sessions } from "../session/sessions.ts";
import { MessageError, parseMessage } from "./json.ts";
import { LegacyConnections } from "./legacy.ts";
import { LegacyRequests } from "./legacy-requests.ts";
import { watchOwnFiles } from "./resources.ts";
import type { ServerFactory } from "./server.ts";
import type { HttpWords } from "./toolset.ts";
import { toWebRequest, writeWebResponse } from "./web.ts";

export interface McpRouteParts {
  createServer: ServerFactory;
  maxRequestBytes: number;
  log: Log;
  /** Whose files to watch for clients that listen for changes; without it there are no such notices. */
  sessions?: Pick<Sessions, "watchFiles">;
  /** Answers each request of an older client on its own, too: there are no connections then. */
  stateless?: boolean;
  /** A toolset's. */
  words?: HttpWords | undefined;
  /** Bounds of the connections of older clients, for tests. */
  legacy?: { idleMs?: number; max?: number };
}

/** `/mcp`: requests of the newest protocol stand alone; older clients have a connection each. */
export function createMcpRoute(parts: McpRouteParts): Route {
  const { createServer, maxRequestBytes, log, sessions } = parts;
  const readBody = createBodyReader(maxRequestBytes);
  const connections = parts.stateless
    ? new LegacyRequests({ createServer, log })
    : new LegacyConnections({ createServer, log, words: parts.words, ...parts.legacy });
  const moderns = new Map<string, Modern>();

  /** One per owner, so that nobody is told of the changes in somebody else's files. */
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

/** Here a client that goes away has cancelled its request. */
async function serveModern(
  handler: McpHttpHandler,
  { request, response, body }: { request: IncomingMessage; response: ServerResponse; body: unknown },
): Promise<void> {
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const answer = await handler.fetch(toWebRequest(request, gone.signal), { parsedBody: body });
  await writeWebResponse(answer, response);
}

/** Revisions are dates; those from 2026 on know POST only. */
function namesModernRevision({ headers }: IncomingMessage): boolean {
  const revision = headers["mcp-protocol-version"];
  return typeof revision === "string" && revision >= "2026";
}
