import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { CellwrightError } from "../../../errors.ts";
import type { Json } from "../../../execution.ts";
import { compare } from "../../../workspace/compare.ts";
import { entryOf } from "../../../workspace/entry.ts";
import { mimeTypeOf } from "../../../workspace/mime.ts";
import { namesOf, outside, shown } from "../../../workspace/path.ts";
import { explain, keptChanging, keptFilling, missing, tooLarge } from "../../../workspace/refusals.ts";
import type { FileEntry, Mark, Workspace } from "../../../workspace/workspace.ts";
import { HelperRefusal, type Refusal } from "../server/refusal.ts";
import { type Call, CHUNK_BYTES } from "./helper.ts";

export interface RemoteWorkspaceParts {
  /** Calls the helper of the session's current server. */
  call: Call;
  notebooksFolder: string;
  sessionId: string;
}

/** Default limit of entries in a listing. */
const MAX_ENTRIES = 10_000;
/** Attempts to read a file that keeps changing, before that is reported as an error. */
const READ_ATTEMPTS = 3;
/** See src/workspace/local/read.ts. */
const TICK_MS = 12;
const REMOVAL_PATIENCE_MS = 60_000;

interface Picture extends Mark {
  readonly totalBytes: number;
}

/** A workspace in a folder on a Jupyter server. `python/remote-helper/helper_walk.py` keeps accesses inside it. */
export function openRemoteWorkspace({ call, notebooksFolder, sessionId }: RemoteWorkspaceParts): Workspace {
  const where = { notebooks: notebooksFolder, session: sessionId };

  /** Calls the helper about a path. Refusals are worded as for a local workspace. */
  async function ask<T>(
    operation: string,
    path: string,
    args: Record<string, Json>,
    options: { bytes?: Uint8Array; maxBytes?: number } = {},
  ): Promise<T> {
    try {
      return await call<T>(operation, { ...where, ...args }, options.bytes && { bytes: options.bytes });
    } catch (error) {
      throw error instanceof HelperRefusal ? inWords(error, path, options.maxBytes ?? 0) : error;
    }
  }

  /** The content of a file at one moment; undefined if it changed meanwhile. */
  async function readOnce(path: string, names: string[], maxBytes: number): Promise<Uint8Array | undefined> {
    const pieces: Buffer[] = [];
    let offset = 0;
    for (let signature: string | undefined; ; ) {
      const args = { names, offset, length: CHUNK_BYTES, limit: maxBytes };
      const piece = await ask<Piece>("read", path, args, { maxBytes });
      const isFirst = signature === undefined;
      signature ??= piece.signature;
      // `steady` counts only before the first piece; after that the signature must not change.
      if (piece.signature !== signature || (isFirst && !piece.steady)) return undefined;
      const bytes = Buffer.from(piece.bytes, "base64");
      pieces.push(bytes);
      offset += bytes.length;
      if (offset === piece.size) return pieces.length === 1 ? bytes : Buffer.concat(pieces);
      if (bytes.length === 0) return undefined;
    }
  }

  async function writeLarge(path: string, names: string[], bytes: Uint8Array): Promise<{ created: boolean }> {
    const upload = randomUUID();
    try {
      for (let offset = 0; offset < bytes.length; offset += CHUNK_BYTES) {
        const piece = bytes.subarray(offset, offset + CHUNK_BYTES);
        await call("upload", { notebooks: notebooksFolder, upload, offset }, { bytes: piece });
      }
      return await call("finish_upload", { ...where, names, upload, size: bytes.length });
    } catch (error) {
      await call("drop_upload", { notebooks: notebooksFolder, upload }).catch(() => {});
      throw error instanceof HelperRefusal ? inWords(error, path, 0) : error;
    }
  }

  async function picture(): Promise<Picture> {
    const { files, complete, totalBytes } = await call<Scan>("scan", where);
    return { files: new Map(files), complete, totalBytes };
  }

  return {
    async list(path, { recursive = false, limit = MAX_ENTRIES } = {}) {
      const { entries, more } = await ask<Listing>("list", path, { names: namesOf(path), recursive, limit });
      const described = entries.map(([entryPath, kind, sizeBytes, modifiedMs]) =>
        entryOf({ path: entryPath, kind, sizeBytes, modifiedMs }),
      );
      return { entries: described, more };
    },

    async read(path, { maxBytes }) {
      const names = namesOf(path);
      for (let attempt = 1; attempt <= READ_ATTEMPTS; attempt += 1) {
        const bytes = await readOnce(path, names, maxBytes);
        if (bytes) return { bytes, mimeType: mimeTypeOf(path) };
        if (attempt < READ_ATTEMPTS) await sleep(TICK_MS);
      }
      throw keptChanging(path);
    },

    async write(path, bytes) {
      const names = namesOf(path);
      if (bytes.length > CHUNK_BYTES) return writeLarge(path, names, bytes);
      return ask("write", path, { names }, { bytes });
    },

    async remove(path) {
      const names = namesOf(path);
      const deadlineMs = performance.now() + REMOVAL_PATIENCE_MS;
      let { doomed } = await ask<Removal>("remove", path, { names });
      while (doomed !== null) {
        if (performance.now() > deadlineMs) throw keptFilling();
        ({ doomed } = await ask<Removal>("remove_rest", path, { names: names.slice(0, -1), doomed }));
      }
    },

    async resolve(path) {
      return (await ask<string[]>("resolve", path, { names: namesOf(path) })).join("/");
    },

    mark: picture,

    async changedSince(mark) {
      const now = await picture();
      const complete = mark.complete && now.complete;
      return { changes: compare(mark, now), complete, totalBytes: now.totalBytes, mark: now };
    },
  };
}

interface Piece {
  size: number;
  signature: string;
  steady: boolean;
  bytes: string;
}

interface Listing {
  entries: [path: string, kind: FileEntry["kind"], sizeBytes: number, modifiedMs: number][];
  more: boolean;
}

interface Scan {
  files: [path: string, signature: string][];
  complete: boolean;
  totalBytes: number;
}

interface Removal {
  /** The folder that still has to be emptied. */
  doomed: string | null;
}

function inWords(error: HelperRefusal, path: string, maxBytes: number): unknown {
  const refusal: Refusal = error.refusal;
  switch (refusal.kind) {
    case "outside":
      return outside(path, refusal.why);
    case "missing":
      return missing(path, refusal.name, refusal.there);
    case "wrong":
      return new CellwrightError("invalid_input", `\`${shown(path)}\` ${refusal.what}.`);
    case "too_large":
      return tooLarge(path, refusal.size, maxBytes);
    case "system": {
      const { code, said } = refusal;
      const ofSystem = Object.assign(new Error(`${code}: ${said}`), { code, syscall: "open" });
      const explained = explain(ofSystem, path);
      return explained === ofSystem ? error : explained;
    }
    default:
      return error;
  }
}
