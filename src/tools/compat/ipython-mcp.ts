import type { Toolset } from "../../mcp/toolset.ts";

export const toolset: Toolset = {
  name: "ipython-mcp",
  server: { name: "ipython-mcp", version: "0.1.0" },
  tools: [],
  unknownTool: (name) => `Unknown tool: ${name}`,
  commandLine: { defaults: {}, command: "stdio" },
};
