import * as z from "zod";
import type { Session } from "../engine/session/session.ts";
import { CellwrightError } from "../errors.ts";
import type { ToolContext } from "./tool.ts";

/** Models write numbers for names made of digits. */
const asText = (given: unknown) => (typeof given === "number" ? String(given) : given);

export const idOrName = z.preprocess(asText, z.string());

/** An existing session. */
export const sessionArgument = z.preprocess(asText, z.string().min(1)).describe("Session id or name.");

/** For tools that change files: those of a closed session are read-only. */
export async function findOpenSession(idOrName: string, { sessions, owner }: ToolContext): Promise<Session> {
  const session = await sessions.get(owner, idOrName);
  if (session.record.endedAt) {
    throw new CellwrightError("session_closed", `Session \`${session.id}\` is closed.`);
  }
  return session;
}
