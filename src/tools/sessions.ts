import * as z from "zod";
import type { SessionSummary } from "../engine/sessions/sessions.ts";
import { showDuration } from "../render/text/amounts.ts";
import { sessionArgument } from "./session-argument.ts";
import { table } from "./table.ts";
import { defineTool } from "./tool.ts";

/** Limit of listed sessions: a server may keep thousands. */
const MAX_LISTED = 50;

const listSessions = defineTool({
  name: "list_sessions",
  title: "List sessions",
  description: "Lists your sessions, newest first: id, name, state, kernel and last use.",
  readOnly: true,
  input: z.object({}),
  async run(_, { sessions, owner }) {
    const all = await sessions.list(owner);
    const listed = all.slice(0, MAX_LISTED);
    const rows = listed.map(({ record, state, kernel }) => [
      record.id,
      record.name ?? "–",
      state,
      kernel ?? "–",
      lastUse(record.lastUsedAt),
    ]);
    const more = all.length > listed.length ? `\n… and ${all.length - listed.length} older ones` : "";
    return {
      type: "text",
      text: rows.length > 0 ? table(["id", "name", "state", "kernel", "last used"], rows) + more : "No sessions.",
      data: { sessions: listed.map(asData), total: all.length },
    };
  },
});

const resetSession = defineTool({
  name: "reset_session",
  title: "Reset session",
  description: "Ends a session's kernel: variables are lost and running cells stop. Id, files and history stay.",
  readOnly: false,
  destructive: true,
  input: z.object({ session_id: sessionArgument }),
  async run({ session_id }, context) {
    const session = await context.sessions.get(context.owner, session_id);
    await session.reset();
    const text = `Session ${session.id} was reset: variables are lost, files are kept. The next cell gets a fresh kernel.`;
    return { type: "text", text };
  },
});

const closeSession = defineTool({
  name: "close_session",
  title: "Close session",
  description: "Closes a session permanently. Its files stay readable for some days unless you delete them.",
  readOnly: false,
  destructive: true,
  input: z.object({
    session_id: sessionArgument,
    delete_files: z.boolean().optional().describe("Also delete its files and history."),
  }),
  async run({ session_id, delete_files = false }, context) {
    const session = await context.sessions.get(context.owner, session_id);
    await context.sessions.close(session, { deleteFiles: delete_files });
    const kept = delete_files
      ? "Its files and history are deleted."
      : "Its files can still be read with the file tools.";
    return { type: "text", text: `Session ${session.id} is closed. ${kept}` };
  },
});

export default [listSessions, resetSession, closeSession];

function asData({ record, state, kernel }: SessionSummary) {
  return {
    session_id: record.id,
    name: record.name ?? null,
    state,
    kernel: kernel ?? null,
    created_at: record.createdAt,
    last_used_at: record.lastUsedAt,
  };
}

function lastUse(at: string): string {
  const agoMs = Date.now() - Date.parse(at);
  return agoMs < 1_000 ? "now" : `${showDuration(agoMs)} ago`;
}
