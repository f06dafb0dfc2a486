import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { descendants } from "./measure.mjs";

/** A server over stdio, started with these arguments to Node. `run` answers with the session's id. */
export async function connectTo(args) {
  const transport = new StdioClientTransport({ command: process.execPath, args, stderr: "inherit" });
  const client = new Client({ name: "bench", version: "1.0.0" });
  await client.connect(transport);
  const { pid } = transport;
  return {
    client,
    pid,
    children: () => descendants(pid),
    async run(code, session_id) {
      const result = await client.callTool(
        { name: "execute_code", arguments: { code, session_id } },
        { timeout: 120_000 },
      );
      const { status, session_id: id } = result._meta["cellwright/execution"];
      if (status !== "ok") throw new Error(`${status}: ${JSON.stringify(result.content)}`);
      return id;
    },
  };
}
