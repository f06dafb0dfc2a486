import * as z from "zod";
import type { Session } from "../../engine/session/session.ts";
import { CellwrightError } from "../../errors.ts";
import type { Tool } from "../../tools/tool.ts";
import { couldNotExecute, failedCell, objectReply, runCell } from "./cell.ts";
import { findSession, noteUse, ReportedError } from "./session.ts";
import { defineTool04, LISTS_OR_STRINGS, STRINGS, type State } from "./state-04.ts";

const createSession = defineTool04({
  name: "create_session",
  description: "Starts a session with its own folder and kernel. All other tools need the session_id that it returns.",
  readOnly: false,
  input: z.object({}),
  values: STRINGS,
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

const executeCode = defineTool04({
  name: "execute_code",
  description:
    "Runs Python, or plain shell commands (`ls`, `pwd`, `pip install …`), in a session. Variables and imports persist between calls, as in a notebook. session_id comes from create_session.",
  readOnly: false,
  input: z.object({ code: z.string(), session_id: z.string() }),
  values: LISTS_OR_STRINGS,
  async run({ code, session_id }, context) {
    try {
      const session = await findSession(session_id, context);
      const reply = await runCell(code, { session, sessionId: session_id, context });
      await noteUse(session).catch(() => {});
      return reply;
    } catch (error) {
      return failedCell(error instanceof ReportedError ? error.message : couldNotExecute(error), session_id);
    }
  },
});

const tools = [createSession, executeCode];

export function sessionTools(state: State): Tool[] {
  return tools.map((tool) => tool(state));
}
