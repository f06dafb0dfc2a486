import { posix } from "node:path";
import { CellwrightError } from "../../errors.ts";
import type { ToolContext } from "../../mcp/tool.ts";
import type { ResourceContext } from "../../mcp/toolset.ts";
import type { Session } from "../../session/session.ts";
import { LOCAL_OWNER } from "../../session/sessions.ts";
import type { Workspace } from "../../workspace/workspace.ts";

/** What is told as it stands: the original's texts of what a caller did wrong. */
export class Told extends Error {
  override name = "Told";
}

export const META_FILE = "session_meta.json";
const MAX_META_BYTES = 100_000;
const uuids = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The session of that id: open, of an earlier run, or left on the server by another program. */
export async function findSession(id: string, context: ResourceContext): Promise<Session> {
  const { sessions, owner } = context;
  try {
    return await sessions.get(owner, id);
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  const found = sessions.hasExpired(owner, id) ? undefined : await enroll(id, context);
  if (found) return found;
  throw new Told(sessions.hasExpired(owner, id) ? `Session ${id} has expired` : `Session ${id} not found`);
}

/** Only the local user's: nothing on the server says whose a folder is. */
async function enroll(id: string, { sessions, owner }: ResourceContext): Promise<Session | undefined> {
  const files = owner === LOCAL_OWNER && uuids.test(id) ? sessions.filesOf(id) : undefined;
  const meta = files && (await readMeta(files));
  if (!meta) return undefined;
  try {
    return await sessions.enroll(owner, {
      id,
      createdAt: isoTime(meta.created_at),
      lastUsedAt: isoTime(meta.last_access),
    });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** Starts the kernels of all sessions that there are. One that cannot be started is no reason to leave out the next. */
export async function restoreAll(context: ResourceContext): Promise<void> {
  const { sessions, owner } = context;
  const known = (await sessions.list(owner)).filter(({ record }) => !record.endedAt).map(({ record }) => record.id);
  const left = (await sessions.shelf?.list("").catch(() => undefined))?.entries ?? [];
  const folders = left.filter(({ kind, path }) => kind === "folder" && uuids.test(path)).map(({ path }) => path);
  for (const id of new Set([...known, ...folders])) {
    const session = await findSession(id, context).catch(() => undefined);
    await session?.wake().catch(() => {});
  }
}

/** Notes in the session's folder that it is in use, as other programs do. */
export async function noteUse({ record, workspace }: Session): Promise<void> {
  const meta = { created_at: unixTime(record.createdAt), last_access: unixTime(record.lastUsedAt) };
  await workspace.write(META_FILE, Buffer.from(JSON.stringify(meta, null, 2)));
}

interface Meta {
  created_at: number;
  last_access: number;
}

/** Any JSON file that says what it has to. */
async function readMeta(files: Workspace): Promise<Meta | undefined> {
  const { entries } = await files.list("");
  const names = entries.filter(({ kind, path }) => kind === "file" && path.endsWith(".json")).map(({ path }) => path);
  for (const name of names.sort((one, other) => Number(other === META_FILE) - Number(one === META_FILE))) {
    try {
      const meta: Partial<Meta> = JSON.parse(
        Buffer.from((await files.read(name, { maxBytes: MAX_META_BYTES })).bytes).toString(),
      );
      if (isTime(meta?.created_at) && isTime(meta.last_access)) return meta as Meta;
    } catch {
      // Another file.
    }
  }
  return undefined;
}

function isTime(value: unknown): value is number {
  return typeof value === "number" && Math.abs(value) < 1e11;
}

const isoTime = (seconds: number) => new Date(seconds * 1000).toISOString();
const unixTime = (iso: string) => Date.parse(iso) / 1000;

function isNotFound(error: unknown): boolean {
  return error instanceof CellwrightError && error.code === "session_not_found";
}

/** A path as it is below the session's folder; undefined if it leaves it. */
export function pathInside(
  path: string,
  session: Session,
  { options }: Pick<ToolContext, "options">,
): string | undefined {
  const folder = posix.join(options.notebooksFolder, session.id);
  const below = posix.isAbsolute(path) && path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : path;
  const plain = posix.normalize(below).replace(/\/$/, "");
  if (posix.isAbsolute(below) || plain === ".." || plain.startsWith("../") || path.includes("\0")) return undefined;
  return plain === "." ? "" : plain;
}
