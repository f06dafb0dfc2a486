import type { IncomingMessage, ServerResponse } from "node:http";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import { refuse } from "../http/refuse.ts";
import type { Log } from "../log.ts";
import type { ServerFactory } from "./server.ts";
import { toWebRequest, writeWebResponse } from "./web.ts";

/** Legacy clients in stateless mode: one server per request, no state kept. */
export class LegacyRequests {
  readonly #createServer: ServerFactory;
  readonly #log: Log;
  readonly #running = new Set<() => Promise<void>>();

  constructor({ createServer, log }: { createServer: ServerFactory; log: Log }) {
    this.#createServer = createServer;
    this.#log = log;
  }

  async handle(
    request: IncomingMessage,
    response: ServerResponse,
    { body, owner }: { body: unknown; owner: string },
  ): Promise<void> {
    try {
      const server = await this.#createServer({ era: "legacy", owner });
      // Also cancels the calls of a client that disconnected.
      const end = () => server.close();
      this.#running.add(end);
      response.once("close", () => {
        this.#running.delete(end);
        void end();
      });
      const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: undefined });
      transport.onerror = (error) => this.#log.debug(`http: ${error.message}`);
      await server.connect(transport);
      const answer = await transport.handleRequest(toWebRequest(request), { parsedBody: body });
      await writeWebResponse(answer, response);
    } catch (error) {
      this.#log.error("a request could not be handled", error);
      refuse(response, 500, "Internal server error", { code: -32603 });
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#running].map((end) => end()));
  }
}
