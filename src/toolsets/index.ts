import type { ToolsetName } from "../options/options.ts";
import type { ToolsetDefinition } from "./toolset.ts";

/** The toolsets, imported lazily. */
// biome-ignore lint/suspicious/noExplicitAny: each toolset has its own type of settings.
const toolsets: Record<ToolsetName, () => Promise<{ toolset: ToolsetDefinition<any> }>> = {
  "mcp-python-code-interpreter": () => import("./mcp-python-code-interpreter/toolset.ts"),
  "jupyter-interpreter-mcp": () => import("./jupyter-interpreter-mcp/toolset.ts"),
  "jupyter-interpreter-mcp@0.4": () => import("./jupyter-interpreter-mcp/toolset-04.ts"),
  "ipython-mcp": () => import("./ipython-mcp/toolset.ts"),
  "code-interpreter-lb": () => import("./code-interpreter-lb/toolset.ts"),
  "mcp-run-python": () => import("./mcp-run-python/toolset.ts"),
};

export async function loadToolset(name: ToolsetName): Promise<ToolsetDefinition> {
  return (await toolsets[name]()).toolset;
}
