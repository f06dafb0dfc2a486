import type { App } from "../app.ts";
import type { ServerFactory } from "../mcp/server.ts";
import type { Toolset } from "../mcp/toolset.ts";
import { LOCAL_OWNER } from "../session/sessions.ts";
import { version } from "../version.ts";

/** What speaks MCP for this app: the tools that were asked for, over either transport. */
export async function createMcpServer(
  app: App,
  { local, toolset }: { local: boolean; toolset?: Toolset | undefined },
): Promise<ServerFactory> {
  const [{ createServerFactory }, { toolGroups }] = await Promise.all([
    import("../mcp/server.ts"),
    import("../tools/index.ts"),
  ]);
  const { sessions, store, options, browser, backends, log } = app;
  void sessions.adopt().catch((error) => log.error("kernels of an earlier run could not be taken over", error));
  void toolset
    ?.onStart?.({ sessions, store, options, owner: LOCAL_OWNER })
    .catch((error) => log.error("earlier sessions could not be restored", error));
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
