import { randomInt } from "node:crypto";
import * as z from "zod";
import type { GuestSession } from "../../engine/guest.ts";
import type { Session } from "../../engine/session/session.ts";
import { LOCAL_OWNER } from "../../engine/sessions/sessions.ts";
import { option } from "../../options/spec.ts";
import { text } from "../../options/types.ts";
import { defineTool, type ToolContext } from "../../tools/tool.ts";
import { NamedSessions } from "../named-sessions.ts";
import { lenientInteger, pydanticSchemas } from "../pydantic.ts";
import { defineToolset } from "../toolset.ts";
import { couldNotExecute, failedCell, runCell } from "./cell.ts";
import { type CellsFilePlace, cellsFileGuest, isFileName } from "./cells-file.ts";
import { commandLine, defaults, environment, pythonCommandLine, urlNames } from "./start.ts";

/** New ids have ten digits: the original uses Unix time. */
const FIRST_ID = 1_000_000_000;
const LAST_ID = 9_999_999_999;

const named = new NamedSessions();

const input = z.object({ code: z.string(), session_id: lenientInteger.default(0) });
/** Schema of each value in an answer. */
const values = { anyOf: [{ items: { type: "string" }, type: "array" }, { type: "integer" }] };

const executeCode = defineTool({
  name: "execute_code",
  title: "",
  description:
    "Executes code (Python or bash) within a persistent session, retaining past results (e.g., variables, imports). Similar to a Jupyter notebook. A session_id is returned on first use and must be included in subsequent requests to maintain context. Bash commands (e.g., 'ls', 'pwd') work directly without wrappers and can be used to install packages.",
  readOnly: false,
  input,
  exact: pydanticSchemas("execute_code", input, values),
  async run({ code, session_id }, context) {
    let session: Session | undefined;
    let sessionId = session_id;
    try {
      if (session_id === 0) sessionId = await newId(context);
      session = await getOrCreate(String(sessionId), context);
      return await runCell(code, { session, sessionId, context });
    } catch (error) {
      // A session that never had a kernel is useless, and no reply names it.
      if (session_id === 0 && session) await context.sessions.close(session, { deleteFiles: true }).catch(() => {});
      return failedCell(couldNotExecute(error), session_id);
    }
  },
});

const usage = `usage: jupyter-interpreter-mcp [-h] [--jupyter-base-url JUPYTER_BASE_URL]
                               [--jupyter-token JUPYTER_TOKEN]
                               [--notebooks-folder NOTEBOOKS_FOLDER]
                               [--version]`;

export const toolset = defineToolset({
  name: "jupyter-interpreter-mcp",
  options: {
    notebooksFolder: option({
      group: "Toolset",
      help: "Folder of the sessions on the Jupyter server.",
      type: text("DIR"),
      default: "/home/jovyan/notebooks",
      aliases: { env: ["NOTEBOOKS_FOLDER"] },
    }),
  },
  create: () => ({
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
    guest: () => ({ ...cellsFileGuest(besideSession), cellOptions: { commands: true } }),
  }),
  commandLine: {
    ...commandLine,
    python: pythonCommandLine(usage, [{ names: ["--notebooks-folder"], value: "text" }]),
    aliases: { jupyterUrl: urlNames },
    environment: (env, cwd) => environment(["NOTEBOOKS_FOLDER"], env, cwd),
    defaults,
    settle: (options, { notebooksFolder }) => ({ ...options, notebooksFolder }),
    version: "jupyter-interpreter-mcp 0.2.1",
  },
});

/** One file per name beside the session folders. Only for the local user, because the names have no owner. */
function besideSession({ id, record, parentFolder }: GuestSession): CellsFilePlace | undefined {
  const { name = id, owner } = record;
  const workspace = owner === LOCAL_OWNER && isFileName(name) ? parentFolder : undefined;
  return workspace && { workspace, path: `${name}.txt` };
}

/** Gets the session with the client's number, or creates it. */
async function getOrCreate(name: string, { sessions, owner }: ToolContext): Promise<Session> {
  return (await sessions.find(owner, name)) ?? named.getOrCreate({ sessions, owner }, name);
}

async function newId({ sessions, owner }: ToolContext): Promise<number> {
  const taken = new Set((await sessions.list(owner)).map(({ record }) => record.name));
  for (;;) {
    const id = randomInt(FIRST_ID, LAST_ID);
    if (!taken.has(String(id))) return id;
  }
}
