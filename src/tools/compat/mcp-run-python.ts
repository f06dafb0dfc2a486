import type { Toolset } from "../../mcp/toolset.ts";

export const toolset: Toolset = {
  name: "mcp-run-python",
  server: { name: "MCP Run Python", version: "0.0.22" },
  tools: [],
  unknownTool: (name) => `Unknown tool: ${name}`,
  commandLine: { defaults: {}, command: "stdio" },
};
