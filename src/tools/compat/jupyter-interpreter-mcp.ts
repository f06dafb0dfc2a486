import type { Toolset } from "../../mcp/toolset.ts";

export const toolset: Toolset = {
  name: "jupyter-interpreter-mcp",
  server: { name: "Code Interpreter", version: "0.2.1" },
  tools: [],
  unknownTool: (name) => `Unknown tool: ${name}`,
  commandLine: { defaults: {}, command: "stdio" },
};
