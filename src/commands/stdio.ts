import { createApp } from "../app.ts";
import type { Toolset } from "../mcp/toolset.ts";
import type { Options } from "../options.ts";
import { createMcpServer } from "./server.ts";
import { shutDown, shutdownSignal } from "./shutdown.ts";

/** Serves the client that started us, until it is gone. */
export async function stdio(options: Options, toolset?: Toolset): Promise<number> {
  const [app, { serveStdio }] = await Promise.all([createApp(options), import("../mcp/stdio.ts")]);
  const connection = serveStdio({
    createServer: await createMcpServer(app, { local: true, toolset }),
    maxRequestBytes: options.maxRequestMb * 1024 * 1024,
    log: app.log,
  });
  const reason = await Promise.race([connection.closed.then(() => "end of input"), shutdownSignal()]);
  app.log.info(`leaving: ${reason}`);
  await shutDown(app.dispose, connection.close);
  return 0;
}
