import type { Toolset } from "../../mcp/toolset.ts";

export const toolset: Toolset = {
  name: "jupyter-interpreter-mcp@0.4",
  server: { name: "Code Interpreter", version: "0.4.0" },
  tools: [],
  unknownTool: (name) => `Unknown tool: ${name}`,
  commandLine: { defaults: {}, command: "stdio" },
};
