import { createApp } from "../app.ts";
import type { KernelInfo } from "../kernels/kernel.ts";
import { listKernels } from "../mcp/instructions.ts";
import type { Options } from "../options/options.ts";
import type { Toolset } from "../toolsets/toolset.ts";
import { type Access, openAccess } from "./serve-access.ts";
import { createMcpServer } from "./server.ts";
import { shutDown, shutdownSignal } from "./shutdown.ts";

/** A slow provider must not delay printing the address. */
const KERNEL_LIST_MS = 5_000;

/** Serves MCP over HTTP until a signal. */
export async function serve(options: Options, toolset?: Toolset): Promise<number> {
  const access = await openAccess(options);
  const [app, { createHttpApp }, { createMcpRoute }, { createSandboxRoutes }, { createStatusRoutes }] =
    await Promise.all([
      createApp(options, { guest: toolset?.guest }),
      import("../http/app.ts"),
      import("../mcp/http.ts"),
      import("../http/sandbox-api.ts"),
      import("../http/status.ts"),
    ]);
  const { log, sessions, backends } = app;
  const maxRequestBytes = options.maxRequestMb * 1024 * 1024;
  const createServer = await createMcpServer(app, { local: false, toolset });
  const words = toolset?.http;
  const mcp = createMcpRoute({ createServer, sessions, log, maxRequestBytes, stateless: options.stateless, words });
  const routes = {
    "/mcp": mcp,
    ...Object.fromEntries((toolset?.paths ?? []).map((path) => [path, mcp])),
    ...(words ? {} : createSandboxRoutes({ sessions, log, maxRequestBytes })),
    ...(backends ? createStatusRoutes(backends) : {}),
  };
  const http = createHttpApp({
    options: { ...options, authToken: access.tokens },
    routes,
    log,
    wrongPath: words?.wrongPath,
  });
  const { url } = await http.listen();
  const kernels = await listKernels(sessions, KERNEL_LIST_MS);
  process.stdout.write(welcome(`${url}/mcp`, access, kernels));
  sessions.warm();
  log.info(`leaving: ${await shutdownSignal()}`);
  http.stopListening();
  // Sessions first, so that calls waiting for a cell still get their replies.
  await shutDown(app.dispose, http.close);
  return 0;
}

function welcome(url: string, { tokens, made }: Access, [kernel]: KernelInfo[]): string {
  const authorization = `Bearer ${made ?? "<token>"}`;
  const headers = tokens.length > 0 ? { headers: { Authorization: authorization } } : {};
  const header = tokens.length > 0 ? ` --header "Authorization: ${authorization}"` : "";
  const config = { mcpServers: { cellwright: { type: "http", url, ...headers } } };
  const place = kernel ? `\nSessions run in ${[`${kernel.description}.`, ...(kernel.notes ?? [])].join(" ")}\n` : "";
  return `Cellwright listens on ${url}
${place}
Paste into the configuration of an MCP client:
${JSON.stringify(config, null, 2)}

or, for Claude Code:
  claude mcp add --transport http cellwright ${url}${header}

A first thing to try: "Use Python to tell me the 1000th prime number."
Press Ctrl-C to stop.
`;
}
