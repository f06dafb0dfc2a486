import { parse } from "node:path";
import { createApp } from "../app.ts";
import type { Options } from "../options/options.ts";
import type { Toolset } from "../toolsets/toolset.ts";
import { createMcpServer } from "./server.ts";
import { shutDown, shutdownSignal } from "./shutdown.ts";

/** Serves MCP over stdio until the client is gone. */
export async function stdio(given: Options, toolset?: Toolset): Promise<number> {
  const options = forOneClient(given, process.cwd());
  const [app, { serveStdio }] = await Promise.all([
    createApp(options, { guest: toolset?.guest }),
    import("../mcp/stdio.ts"),
  ]);
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

/** A local client may use paths, and files in its working directory, unless that is the root folder. */
function forOneClient(options: Options, workingDir: string): Options {
  const filesDir = workingDir === parse(workingDir).root ? undefined : workingDir;
  return { ...options, allowEnvPaths: true, filesDir: options.filesDir ?? filesDir };
}
