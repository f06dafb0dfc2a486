import * as z from "zod";
import { CellwrightError } from "../errors.ts";
import type { ToolContext } from "../mcp/tool.ts";
import type { Session } from "../session/session.ts";

/** A session that must exist. Models write numbers where names are made of digits. */
export const sessionArgument = z
  .preprocess((value) => (typeof value === "number" ? String(value) : value), z.string().min(1))
  .describe("Session id or name.");

export function findSession(idOrName: string, { sessions, owner }: ToolContext): Promise<Session> {
  return sessions.get(owner, idOrName);
}

/** For tools that change files: those of a session that was ended can only be read. */
export async function findOpenSession(idOrName: string, context: ToolContext): Promise<Session> {
  const session = await findSession(idOrName, context);
  if (session.record.endedAt) {
    throw new CellwrightError("session_closed", `Session \`${session.id}\` is closed.`);
  }
  return session;
}
