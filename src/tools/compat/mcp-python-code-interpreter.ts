import type { Toolset } from "../../mcp/toolset.ts";

export const toolset: Toolset = {
  name: "mcp-python-code-interpreter",
  server: { name: "Python Code Interpreter", version: "1.0.0" },
  tools: [],
  unknownTool: (name) => `Unknown tool: ${name}`,
  commandLine: { defaults: {}, command: "stdio" },
};
