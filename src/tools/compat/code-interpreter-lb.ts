import type { Toolset } from "../../mcp/toolset.ts";

export const toolset: Toolset = {
  name: "code-interpreter-lb",
  server: { name: "code-interpreter", version: "1.0.0" },
  tools: [],
  unknownTool: (name) => `Unknown tool: ${name}`,
  commandLine: { defaults: {}, command: "stdio" },
};
