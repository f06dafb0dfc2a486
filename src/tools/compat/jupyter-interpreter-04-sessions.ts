import * as z from "zod";
import { CellwrightError } from "../../errors.ts";
import { defineTool } from "../../mcp/tool.ts";
import type { Session } from "../../session/session.ts";
import { couldNotExecute, failedCell, objectReply, runCell } from "./jupyter-interpreter-cell.ts";
import { findSession, noteUse, Told } from "./jupyter-interpreter-session.ts";

const createSession = defineTool({
  name: "create_session",
  title: "",
  description:
    "Begins a session with a folder and a kernel of its own. All other tools want the session_id that it returns.",
  readOnly: false,
  input: z.object({}),
  exact: {
    inputSchema: { properties: {}, title: "create_sessionArguments", type: "object" },
    outputSchema: {
      additionalProperties: { type: "string" },
      title: "create_sessionDictOutput",
      type: "object",
    },
  },
  async run(_, { sessions, owner }) {
    let session: Session | undefined;
    try {
      session = await sessions.create(owner);
      await session.wake();
      await noteUse(session);
      return objectReply({ session_id: session.id });
    } catch (error) {
      if (!(error instanceof CellwrightError)) throw error;
      if (session) await sessions.close(session, { deleteFiles: true }).catch(() => {});
      return objectReply({ error: `Failed to create session: ${error.message}` });
    }
  },
});

const executeCode = defineTool({
  name: "execute_code",
  title: "",
  description:
    "Runs Python, or shell commands as they stand (`ls`, `pwd`, `pip install …`), in a session. Variables and imports stay for the next call, as in a notebook. session_id comes from create_session.",
  readOnly: false,
  input: z.object({ code: z.string(), session_id: z.string() }),
  exact: {
    inputSchema: {
      properties: {
        code: { title: "Code", type: "string" },
        session_id: { title: "Session Id", type: "string" },
      },
      required: ["code", "session_id"],
      title: "execute_codeArguments",
      type: "object",
    },
    outputSchema: {
      additionalProperties: { anyOf: [{ items: { type: "string" }, type: "array" }, { type: "string" }] },
      title: "execute_codeDictOutput",
      type: "object",
    },
  },
  async run({ code, session_id }, context) {
    try {
      const session = await findSession(session_id, context);
      const reply = await runCell(code, { session, sessionId: session_id, context });
      await noteUse(session).catch(() => {});
      return reply;
    } catch (error) {
      return failedCell(error instanceof Told ? error.message : couldNotExecute(error), session_id);
    }
  },
});

export const sessionTools = [createSession, executeCode];
