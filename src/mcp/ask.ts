import type { ServerContext } from "@modelcontextprotocol/server";
import type { InputRequest } from "../kernels/kernel.ts";
import type { Log } from "../log.ts";

/** Longest prompt of `input()` that is shown to the user. */
const MAX_PROMPT_CHARS = 1_000;

/** Forwards `input()` of a cell to the user by elicitation; undefined when they do not answer. */
export function askUser(mcpRequest: ServerContext["mcpReq"], log: Log) {
  return async ({ prompt, secret }: InputRequest): Promise<string | undefined> => {
    // MCP forbids elicitation of passwords: the client would show and keep them.
    if (secret) return undefined;
    try {
      const { action, content } = await mcpRequest.elicitInput(
        {
          mode: "form",
          message: `The running cell asks: ${prompt.slice(0, MAX_PROMPT_CHARS) || "input()"}`,
          requestedSchema: {
            type: "object",
            properties: { answer: { type: "string", title: "Answer" } },
            required: ["answer"],
          },
        },
        { signal: mcpRequest.signal },
      );
      return action === "accept" ? String(content?.answer ?? "") : undefined;
    } catch (error) {
      log.debug(`elicitation failed: ${error}`);
      return undefined;
    }
  };
}
