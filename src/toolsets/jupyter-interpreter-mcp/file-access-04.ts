import { posix } from "node:path";
import type { Session } from "../../engine/session/session.ts";
import { CellwrightError, hasCode } from "../../errors.ts";
import type { ExactReply } from "../../tools/tool.ts";
import { objectReply } from "./cell.ts";
import { baseName, isHidden, isSensitive } from "./names.ts";
import { findSession, noteUse, pathInside, ReportedError } from "./session.ts";
import type { Context04 } from "./state-04.ts";

/** A file is copied through memory. */
const MAX_BYTES = 512 * 1024 * 1024;

interface FileInSession {
  session: Session;
  /** Relative to the session's folder, without `..`. */
  file: string;
}

/** Checks name, session and path, then does the work. Failures become an object with `error`. */
export async function inSession(
  { session_id, path: given }: { session_id: string; path: string },
  context: Context04,
  failure: string,
  work: (place: FileInSession) => Promise<object>,
  extra: object = {},
): Promise<ExactReply> {
  try {
    if (isSensitive(given)) throw blocked(given);
    const session = await findSession(session_id, context);
    const file = await placeOf(given, session, context);
    const value = await work({ session, file });
    await noteUse(session).catch(() => {});
    return objectReply(value);
  } catch (error) {
    return objectReply({ error: errorText(error, given, failure), ...extra });
  }
}

function errorText(error: unknown, given: string, failure: string): string {
  if (error instanceof ReportedError) return error.message;
  if (hasCode(error, "path_outside_session")) return outside(given);
  if (error instanceof CellwrightError) return `${failure}: ${error.message}`;
  throw error;
}

async function placeOf(given: string, session: Session, context: Context04): Promise<string> {
  const file = pathInside(given, session, context);
  if (file === undefined) throw new ReportedError(outside(given));
  if (isSensitive(file)) throw blocked(given);
  let target = file;
  try {
    target = (await session.workspace.resolve?.(file)) ?? file;
  } catch (error) {
    // A missing file is reported when it is opened.
    if (hasCode(error, "path_outside_session")) throw error;
  }
  if (isSensitive(target)) throw blocked(target);
  return file;
}

function outside(path: string): string {
  return `Path '${path}' escapes session directory`;
}

function blocked(path: string): ReportedError {
  return new ReportedError(`Access blocked: '${baseName(path)}' matches a sensitive file pattern`);
}

/** The Jupyter server's path of a file: relative to its root folder. */
export function servedPath({ id }: Session, file: string, { options, own }: Context04): string {
  return posix.relative(own.jupyterRoot, posix.join(options.notebooksFolder, id, file));
}

export async function readBytes({ workspace }: Session, file: string, given: string): Promise<Uint8Array> {
  const missing = new ReportedError(`File not found: ${given}`);
  if (isHidden(file)) throw missing;
  try {
    return (await workspace.read(file, { maxBytes: MAX_BYTES })).bytes;
  } catch (error) {
    throw hasCode(error, "file_not_found") ? missing : error;
  }
}

export async function write(session: Session, file: string, bytes: Uint8Array): Promise<void> {
  // A Jupyter server answers like this for hidden files.
  if (isHidden(file)) throw new CellwrightError("invalid_input", `Cannot create file or directory '${file}'`);
  await session.workspace.write(file, bytes);
  session.filesChanged([file]);
}

export async function isThere({ workspace }: Session, file: string): Promise<boolean> {
  try {
    const target = (await workspace.resolve?.(file)) ?? file;
    const { entries } = await workspace.list(posix.dirname(target));
    return target === "" || entries.some((entry) => entry.path === target);
  } catch (error) {
    if (hasCode(error, "file_not_found")) return false;
    throw error;
  }
}
