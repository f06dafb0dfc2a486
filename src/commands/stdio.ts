import { parse } from "node:path";
import { createApp } from "../app.ts";
import type { Toolset } from "../mcp/toolset.ts";
import type { Options } from "../options.ts";
import { createMcpServer } from "./server.ts";
import { shutDown, shutdownSignal } from "./shutdown.ts";

/** Serves the client that started us, until it is gone. */
export async function stdio(given: Options, toolset?: Toolset): Promise<number> {
  const options = forOneClient(given, process.cwd());
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

/** Who started us may name what they see, and work with files where they are; being started nowhere is not everywhere. */
export function forOneClient(options: Options, workingDir: string): Options {
  const filesDir = workingDir === parse(workingDir).root ? undefined : workingDir;
  return { ...options, allowEnvPaths: true, filesDir: options.filesDir ?? filesDir };
}
