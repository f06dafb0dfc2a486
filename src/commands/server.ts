import type { App } from "../app.ts";
import { LOCAL_OWNER } from "../engine/sessions/sessions.ts";
import type { ServerFactory } from "../mcp/server.ts";
import type { Toolset } from "../toolsets/toolset.ts";
import { version } from "../version.ts";

/** The MCP server of this app, with the chosen tools, for either transport. */
export async function createMcpServer(
  app: App,
  { local, toolset }: { local: boolean; toolset?: Toolset | undefined },
): Promise<ServerFactory> {
  const [{ createServerFactory }, { toolGroups }] = await Promise.all([
    import("../mcp/server.ts"),
    import("../tools/index.ts"),
  ]);
  const { sessions, store, options, browser, backends, log } = app;
  void sessions.adopt().catch((error) => log.error("cannot adopt kernels of an earlier run", error));
  void toolset
    ?.onStart?.({ sessions, store, options, owner: LOCAL_OWNER })
    .catch((error) => log.error("cannot restore earlier sessions", error));
  return createServerFactory({
    sessions,
    store,
    options,
    browser,
    backends,
    log,
    local,
    version,
    toolset,
    tools:
      toolset?.tools ?? toolGroups.filter((group) => options.caps.includes(group.name)).flatMap((group) => group.tools),
    hostFiles: app.hostFiles(options.filesDir),
    onFirstUse: () => sessions.warm(),
  });
}
