import {
  ProtocolError,
  ProtocolErrorCode,
  type ReadResourceResult,
  type Resource,
  type Server,
} from "@modelcontextprotocol/server";
import * as z from "zod";
import type { Session } from "../engine/session/session.ts";
import type { FileWatcher, Sessions } from "../engine/sessions/sessions.ts";
import { CellwrightError, hasCode } from "../errors.ts";
import type { Backends } from "../kernels/kernel.ts";
import type { Log } from "../log.ts";
import { utf8Text } from "../render/text/utf8.ts";
import type { Blob, Store } from "../store/store.ts";
import { fileUri, fileUriTemplate, parseFileUri } from "../tools/uri.ts";
import { readStatus, STATUS_URI, statusResource } from "./status-resource.ts";

/** The list is for finding new files; list_files finds older ones. */
const LISTED_FILES = 200;

/** As base64 this stays below the SDK's 10 MB limit of one stdio message. */
const MAX_READ_BYTES = 7_000_000;

/** Subscriptions per connection: bounds memory, far above what a client shows. */
const MAX_WATCHED = 1_000;

/** Debounces notifications: a cell may change many files in many steps. */
const LIST_NOTICE_MS = 200;

/** The SDK's own validation reports wrong parameters as an internal error. The longest path is 4096 bytes. */
const uriParams = z.object({ uri: z.string().max(16_384) });

interface ResourceParts {
  sessions: Sessions;
  store: Store;
  /** For the status resource. */
  backends?: Backends | undefined;
  log: Log;
}

/** Files of the owner's sessions as resources. `watch`: the server lives long enough to notify of changes. */
export function offerResources(
  server: Server,
  parts: ResourceParts,
  { owner, era, watch }: { owner: string; era: "legacy" | "modern"; watch: boolean },
): void {
  const { backends } = parts;
  server.setRequestHandler("resources/list", async () => ({
    resources: [...(backends ? [statusResource] : []), ...(await listFiles(parts, owner))],
  }));
  server.setRequestHandler("resources/templates/list", () => ({
    resourceTemplates: [
      {
        name: "session file",
        title: "File of a session",
        uriTemplate: fileUriTemplate,
        description: "A file in a session's workspace, by its path there.",
      },
    ],
  }));
  server.setRequestHandler("resources/read", { params: uriParams }, ({ uri }) =>
    backends && uri === STATUS_URI ? readStatus(backends) : readFile(parts, { owner, uri }),
  );

  const watched = new Map<string, string>();
  if (era === "legacy") {
    server.setRequestHandler("resources/subscribe", { params: uriParams }, ({ uri }) => {
      if (watched.size >= MAX_WATCHED) throw refuse(uri, `A connection may watch ${MAX_WATCHED} files.`);
      watched.set(canonical(uri), uri);
      return {};
    });
    server.setRequestHandler("resources/unsubscribe", { params: uriParams }, ({ uri }) => {
      watched.delete(canonical(uri));
      return {};
    });
  }
  if (!watch) return;
  const ignore = (error: unknown) => parts.log.debug(`change notification failed: ${error}`);
  const stop = watchOwnFiles(parts.sessions, owner, {
    listChanged: () => server.sendResourceListChanged().catch(ignore),
    updated: (uri) => {
      // For modern clients the SDK filters by subscription.
      const asked = era === "modern" ? uri : watched.get(uri);
      if (asked !== undefined) server.sendResourceUpdated({ uri: asked }).catch(ignore);
    },
  });
  const onclose = server.onclose;
  server.onclose = () => {
    stop();
    onclose?.();
  };
}

/** Reports changes in the files of one owner; `listChanged` is debounced. */
export function watchOwnFiles(
  sessions: Pick<Sessions, "watchFiles">,
  owner: string,
  tell: { listChanged(): void; updated(uri: string): void },
): () => void {
  let timer: NodeJS.Timeout | undefined;
  const watcher: FileWatcher = (session, paths) => {
    if (session.record.owner !== owner) return;
    for (const path of paths) tell.updated(fileUri(session.id, path));
    timer ??= setTimeout(() => {
      timer = undefined;
      tell.listChanged();
    }, LIST_NOTICE_MS);
  };
  const stop = sessions.watchFiles(watcher);
  return () => {
    stop();
    clearTimeout(timer);
  };
}

async function listFiles({ sessions, log }: ResourceParts, owner: string): Promise<Resource[]> {
  const resources: Resource[] = [];
  for (const session of sessions.opened(owner)) {
    const left = LISTED_FILES - resources.length;
    if (left <= 0) break;
    try {
      resources.push(...(await filesOf(session, left)));
    } catch (error) {
      if (hasCode(error, "not_supported")) continue;
      log.warn(`session ${session.id}: cannot list its files`, error);
    }
  }
  return resources;
}

async function filesOf(session: Session, limit: number): Promise<Resource[]> {
  const { entries } = await session.workspace.list(".", { recursive: true, limit });
  return entries
    .filter((entry) => entry.kind === "file")
    .map((entry) => ({
      uri: fileUri(session.id, entry.path),
      name: entry.path,
      mimeType: entry.mimeType,
      size: entry.sizeBytes,
      annotations: { lastModified: entry.modifiedAt },
    }));
}

async function readFile(
  parts: ResourceParts,
  { owner, uri }: { owner: string; uri: string },
): Promise<ReadResourceResult> {
  const target = parseFileUri(uri);
  if (!target) throw refuse(uri, `\`${uri.slice(0, 200)}\` is not a resource of this server: ${fileUriTemplate}.`);
  try {
    const session = await parts.sessions.get(owner, target.sessionId);
    const { bytes, mimeType } = await open(parts.store, session, target.path);
    const text = isText(mimeType) ? utf8Text(bytes) : undefined;
    if (text !== undefined) return { contents: [{ uri, mimeType, text }] };
    return { contents: [{ uri, mimeType, blob: Buffer.from(bytes).toString("base64") }] };
  } catch (error) {
    if (error instanceof CellwrightError && error.code !== "internal") {
      throw refuse(uri, `${error.message} ${error.hint}`);
    }
    parts.log.error(`cannot read ${uri}`, error);
    throw new ProtocolError(ProtocolErrorCode.InternalError, "Internal error: the resource could not be read.");
  }
}

async function open(store: Store, session: Session, path: string): Promise<Blob> {
  if (!path.startsWith(".outputs/")) return session.workspace.read(path, { maxBytes: MAX_READ_BYTES });
  const blob = await store.getBlob(`cell://${session.id}/${path}`);
  if (!blob) throw new CellwrightError("file_not_found", `There is no \`${path}\` in session \`${session.id}\`.`);
  if (blob.bytes.length <= MAX_READ_BYTES) return blob;
  throw new CellwrightError("too_large", `\`${path}\` has ${blob.bytes.length} bytes; the limit is ${MAX_READ_BYTES}.`);
}

const textTypes = /^(text\/|application\/(json|xml|yaml|toml|sql|x-ndjson|x-sh|x-tex|javascript)\b|.*\+(json|xml)$)/;

function isText(mimeType: string): boolean {
  return textTypes.test(mimeType);
}

function canonical(uri: string): string {
  const target = parseFileUri(uri);
  return target ? fileUri(target.sessionId, target.path) : uri;
}

function refuse(uri: string, message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message, { uri });
}
