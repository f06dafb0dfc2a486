// A minimal MCP server over stdio with the same SDK: the baseline cost of a call.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

serveStdio(() => {
  const server = new McpServer({ name: "noop", version: "1.0.0" });
  server.registerTool("noop", { description: "Does nothing." }, async () => ({
    content: [{ type: "text", text: "ok" }],
  }));
  return server;
});
