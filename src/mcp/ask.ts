import type { ServerContext } from "@modelcontextprotocol/server";
import type { InputRequest } from "../kernels/kernel.ts";
import type { Log } from "../log.ts";

/** What `input()` in a cell may ask of a person, in characters. */
const MAX_PROMPT_CHARS = 1_000;

/** Puts a question of a cell to the user through the client; undefined when they do not answer it. */
export function askUser(mcpRequest: ServerContext["mcpReq"], log: Log) {
  return async ({ prompt, secret }: InputRequest): Promise<string | undefined> => {
    // The protocol forbids to ask for passwords this way: the client would show and keep them.
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
      log.debug(`the user could not be asked: ${error}`);
      return undefined;
    }
  };
}
