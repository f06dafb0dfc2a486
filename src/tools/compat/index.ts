import type { Toolset } from "../../mcp/toolset.ts";
import type { ToolsetName } from "../../options.ts";

/** The systems whose tools we can offer instead of our own. Each is imported when it is asked for. */
const toolsets: Record<ToolsetName, () => Promise<{ toolset: Toolset }>> = {
  "mcp-python-code-interpreter": () => import("./mcp-python-code-interpreter.ts"),
  "jupyter-interpreter-mcp": () => import("./jupyter-interpreter-mcp.ts"),
  "jupyter-interpreter-mcp@0.4": () => import("./jupyter-interpreter-mcp-04.ts"),
  "ipython-mcp": () => import("./ipython-mcp.ts"),
  "code-interpreter-lb": () => import("./code-interpreter-lb.ts"),
  "mcp-run-python": () => import("./mcp-run-python.ts"),
};

export async function loadToolset(name: ToolsetName): Promise<Toolset> {
  return (await toolsets[name]()).toolset;
}
