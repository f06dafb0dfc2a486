import { posix } from "node:path";
import type { Session } from "../../engine/session/session.ts";
import { LOCAL_OWNER } from "../../engine/sessions/sessions.ts";
import type { ToolContext } from "../../tools/tool.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { ResourceContext04 } from "./state-04.ts";

/** An error with the original's text, returned verbatim. */
export class ReportedError extends Error {
  override name = "ReportedError";
}

const META_FILE = "session_meta.json";
const MAX_META_BYTES = 100_000;
const uuids = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Finds a session: open, of an earlier run, or left on the server by another program. */
export async function findSession(id: string, context: ResourceContext04): Promise<Session> {
  const { sessions, owner, forgotten } = context;
  const isForgotten = () => forgotten.has(owner, id);
  const found = (await sessions.find(owner, id)) ?? (isForgotten() ? undefined : await takeOver(id, context));
  if (found) return found;
  throw new ReportedError(isForgotten() ? `Session ${id} has expired` : `Session ${id} not found`);
}

/** A session that another program left on the server. Only for the local user: the folder does not name its owner. */
async function takeOver(id: string, { sessions, store, owner }: ResourceContext04): Promise<Session | undefined> {
  const files = owner === LOCAL_OWNER && uuids.test(id) ? sessions.provider.workspace?.(id) : undefined;
  const meta = files && (await readMeta(files));
  if (!meta || (await store.sessions()).some((record) => record.id === id)) return undefined;
  await store.saveSession({
    id,
    owner,
    createdAt: isoTime(meta.created_at),
    lastUsedAt: isoTime(meta.last_access),
    cells: 0,
  });
  return sessions.find(owner, id);
}

/** Starts the kernels of all sessions. A failure does not affect the others. */
export async function restoreAll(context: ResourceContext04): Promise<void> {
  const { sessions, owner } = context;
  const known = (await sessions.list(owner)).filter(({ record }) => !record.endedAt).map(({ record }) => record.id);
  const parent = sessions.provider.parentFolder?.("");
  const { entries = [] } = (await parent?.list("").catch(() => undefined)) ?? {};
  const folders = entries.filter(({ kind, path }) => kind === "folder" && uuids.test(path)).map(({ path }) => path);
  for (const id of new Set([...known, ...folders])) {
    const session = await findSession(id, context).catch(() => undefined);
    await session?.wake().catch(() => {});
  }
}

/** Records the session's last use in its folder, as other programs do. */
export async function noteUse({ record, workspace }: Session): Promise<void> {
  const meta = { created_at: unixTime(record.createdAt), last_access: unixTime(record.lastUsedAt) };
  await workspace.write(META_FILE, Buffer.from(JSON.stringify(meta, null, 2)));
}

interface Meta {
  created_at: number;
  last_access: number;
}

/** The metadata file: any JSON file with the required fields. */
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
      // Not the metadata file.
    }
  }
  return undefined;
}

function isTime(value: unknown): value is number {
  return typeof value === "number" && Math.abs(value) < 1e11;
}

const isoTime = (seconds: number) => new Date(seconds * 1000).toISOString();
const unixTime = (iso: string) => Date.parse(iso) / 1000;

/** A path relative to the session's folder; undefined if it leaves the folder. */
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
