import { randomInt } from "node:crypto";
import * as z from "zod";
import { CellwrightError } from "../../errors.ts";
import { defineTool, type ToolContext } from "../../mcp/tool.ts";
import type { Toolset } from "../../mcp/toolset.ts";
import type { Session } from "../../session/session.ts";
import { couldNotExecute, failedCell, runCell } from "./jupyter-interpreter-cell.ts";
import { commandLine, defaults } from "./jupyter-interpreter-start.ts";
import { lenientInteger } from "./lenient.ts";

/** Ids of new sessions: as many digits as a time in seconds has, which they were. */
const FIRST_ID = 1_000_000_000;
const LAST_ID = 9_999_999_999;

const executeCode = defineTool({
  name: "execute_code",
  title: "",
  description:
    "Executes code (Python or bash) within a persistent session, retaining past results (e.g., variables, imports). Similar to a Jupyter notebook. A session_id is returned on first use and must be included in subsequent requests to maintain context. Bash commands (e.g., 'ls', 'pwd') work directly without wrappers and can be used to install packages.",
  readOnly: false,
  input: z.object({ code: z.string(), session_id: lenientInteger.default(0) }),
  exact: {
    inputSchema: {
      properties: {
        code: { title: "Code", type: "string" },
        session_id: { default: 0, title: "Session Id", type: "integer" },
      },
      required: ["code"],
      title: "execute_codeArguments",
      type: "object",
    },
    outputSchema: {
      additionalProperties: { anyOf: [{ items: { type: "string" }, type: "array" }, { type: "integer" }] },
      title: "execute_codeDictOutput",
      type: "object",
    },
  },
  async run({ code, session_id }, context) {
    let session: Session | undefined;
    let sessionId = session_id;
    try {
      if (session_id === 0) sessionId = await newId(context);
      session = await obtain(String(sessionId), context);
      return await runCell(code, { session, sessionId, context });
    } catch (error) {
      // A session that never had a kernel is of no use, and its id is in no reply.
      if (session_id === 0 && session) await context.sessions.close(session, { deleteFiles: true }).catch(() => {});
      return failedCell(couldNotExecute(error), session_id);
    }
  },
});

export const toolset: Toolset = {
  name: "jupyter-interpreter-mcp",
  server: {
    name: "Code Interpreter",
    version: "0.2.1",
    instructions: `You can execute code by sending a request with the code you want
to run. Think of this tool as a jupyter notebook. It will remember your previously
executed code, if you pass in your session_id. It is crucial to remember your
session_id for a smooth interaction.

Supports both Python code and bash commands (e.g., 'ls', 'pwd', 'cat file.txt').
Bash commands are executed directly without needing shell wrappers like !ls.
You can also use shell commands to install packages
    `,
  },
  tools: [executeCode],
  unknownTool: (name) => `Unknown tool: ${name}`,
  commandLine: {
    ...commandLine,
    defaults: { ...defaults, notebooksFolder: "/home/jovyan/notebooks", cellsFile: "beside" },
    version: "jupyter-interpreter-mcp 0.2.1",
  },
};

/** A session is known by the number that the client uses. One that nobody knows begins there and then. */
async function obtain(name: string, { sessions, owner }: ToolContext): Promise<Session> {
  try {
    return await sessions.get(owner, name);
  } catch (error) {
    if (!(error instanceof CellwrightError) || error.code !== "session_not_found") throw error;
    return sessions.obtain(owner, name);
  }
}

async function newId({ sessions, owner }: ToolContext): Promise<number> {
  const taken = new Set((await sessions.list(owner)).map(({ record }) => record.name));
  for (;;) {
    const id = randomInt(FIRST_ID, LAST_ID);
    if (!taken.has(String(id))) return id;
  }
}
