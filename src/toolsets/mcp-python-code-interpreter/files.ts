import type { Session } from "../../engine/session/session.ts";
import { CellwrightError, hasCode } from "../../errors.ts";
import type { FileChange } from "../../execution.ts";
import { utf8Text } from "../../render/text/utf8.ts";
import type { ResourceContent } from "../toolset.ts";

/** The original's history file: never listed, never served. */
const HISTORY_FILE = "jupyter_session_code.txt";

/** Limit of one file read as a resource. */
const MAX_READ_BYTES = 64 * 1024 * 1024;

export interface FileRef {
  uri: string;
  mime_type: string;
  name: string;
  size: number;
}

export function fileRef(sessionId: string, file: Pick<FileChange, "path" | "mimeType" | "sizeBytes">): FileRef {
  const uri = `kernel://${sessionId}/${encodeURIComponent(file.path.toWellFormed())}`;
  return { uri, mime_type: file.mimeType, name: file.path, size: file.sizeBytes };
}

export function fileLine({ path, change, mimeType, sizeBytes }: FileChange): string {
  return `📊 File ${change === "created" ? "created" : "changed"}: ${path} (${mimeType}, ${sizeBytes} bytes)`;
}

export function isReported({ path, change }: FileChange): boolean {
  return change !== "deleted" && path !== HISTORY_FILE;
}

/** Files that replies reported and that still exist. */
export async function reportedFiles(session: Session): Promise<FileRef[]> {
  const reported = new Set(
    (await session.cells()).flatMap(({ files }) => files.filter(isReported).map(({ path }) => path)),
  );
  const { entries } = await session.workspace.list(".", { recursive: true });
  return entries
    .filter(({ kind, path }) => kind === "file" && reported.has(path))
    .map((entry) => fileRef(session.id, entry));
}

/** Undefined if the URI is not that of a file. */
export async function readKernelFile(
  uri: string,
  find: (sessionId: string) => Promise<Session>,
): Promise<ResourceContent | undefined> {
  const [, id, written] = /^kernel:\/\/([^/]+)\/(.+)$/s.exec(uri) ?? [];
  if (id === undefined || written === undefined) return undefined;
  const session = await find(decoded(id));
  const filename = decoded(written);
  const notFound = new Error(`File not found: ${filename}`);
  if (filename.replace(/^(\.?\/)+/, "") === HISTORY_FILE) throw notFound;
  try {
    const { bytes, mimeType } = await session.workspace.read(filename, { maxBytes: MAX_READ_BYTES });
    const text = /^(text\/|application\/(json|xml)$)/.test(mimeType) ? utf8Text(bytes) : undefined;
    return text === undefined ? { mimeType, blob: bytes } : { mimeType, text };
  } catch (error) {
    if (hasCode(error, "too_large")) throw error;
    throw error instanceof CellwrightError ? notFound : error;
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
