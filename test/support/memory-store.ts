import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Execution } from "../../src/execution.ts";
import { removeFolder } from "../../src/process/remove-folder.ts";
import { blobName, blobUri, mimeTypeOf, parseBlobUri } from "../../src/store/blob-name.ts";
import { lost } from "../../src/store/disk-session.ts";
import { characterEnd } from "../../src/store/spill.ts";
import type { SessionRecord, Spill, Store } from "../../src/store/store.ts";

/** A store in memory. Only the session folders are real, in a temporary folder. */
export function openMemoryStore(): Store {
  const records = new Map<string, SessionRecord>();
  const histories = new Map<string, Map<string, Execution>>();
  const running = new Map<string, Set<string>>();
  const blobs = new Map<string, () => Uint8Array | undefined>();
  const folders = new Map<string, Promise<string>>();

  function keep(sessionId: string, execution: Execution): void {
    entry(histories, sessionId, () => new Map()).set(execution.id, structuredClone(execution));
  }

  function kept(sessionId: string): Execution[] {
    const executions = [...(histories.get(sessionId)?.values() ?? [])];
    const isLost = ({ id, status }: Execution) => status === "running" && !running.get(sessionId)?.has(id);
    return structuredClone(executions.map((execution) => (isLost(execution) ? lost(execution) : execution)));
  }

  async function removeSessionFolder(sessionId: string): Promise<void> {
    const folder = await folders.get(sessionId);
    folders.delete(sessionId);
    if (folder) await removeFolder(folder);
  }

  return {
    sessions: async () => structuredClone([...records.values()]),

    // No other process can see this store, so none has claimed a session of it.
    claim: async () => true,
    claimedBy: async () => undefined,
    release: async (sessionId) => void running.delete(sessionId),

    saveSession: async (record) => void records.set(record.id, structuredClone(record)),

    async begin(sessionId, execution) {
      keep(sessionId, execution);
      entry(running, sessionId, () => new Set()).add(execution.id);
    },
    async finish(sessionId, execution) {
      keep(sessionId, execution);
      entry(running, sessionId, () => new Set()).delete(execution.id);
      return [];
    },
    history: async (sessionId) => kept(sessionId),
    cells: async (sessionId) => kept(sessionId).map(({ outputs: _, ...cell }) => cell),
    execution: async (sessionId, executionId) => kept(sessionId).find(({ id }) => id === executionId),

    async putBlob(sessionId, bytes, mimeType) {
      const uri = blobUri(sessionId, blobName(bytes, mimeType));
      const copy = bytes.slice();
      blobs.set(uri, () => copy);
      return uri;
    },
    openSpill(sessionId, name, maxBytes) {
      const uri = blobUri(sessionId, name);
      const { spill, bytes } = openMemorySpill(uri, maxBytes);
      blobs.set(uri, bytes);
      return spill;
    },
    async getBlob(uri) {
      const bytes = blobs.get(uri)?.();
      return bytes && { bytes: bytes.slice(), mimeType: mimeTypeOf(uri) };
    },

    async forget(sessionId) {
      records.delete(sessionId);
      histories.delete(sessionId);
      running.delete(sessionId);
      for (const uri of blobs.keys()) if (parseBlobUri(uri)?.sessionId === sessionId) blobs.delete(uri);
      await removeSessionFolder(sessionId);
    },
    folder: (sessionId) => entry(folders, sessionId, () => mkdtemp(join(tmpdir(), "cellwright-"))),

    async dispose() {
      for (const id of folders.keys()) await removeSessionFolder(id);
    },
  };
}

function openMemorySpill(uri: string, maxBytes: number): { spill: Spill; bytes: () => Uint8Array | undefined } {
  let text = "";
  const spill: Spill = {
    uri,
    write(more) {
      // A character takes at least one byte.
      text += more.slice(0, Math.max(0, maxBytes - text.length));
    },
    close: async () => {},
  };
  const bytes = () => {
    const all = Buffer.from(text);
    return text === "" ? undefined : all.subarray(0, characterEnd(all, maxBytes));
  };
  return { spill, bytes };
}

function entry<T>(map: Map<string, T>, key: string, make: () => T): T {
  const value = map.get(key) ?? make();
  map.set(key, value);
  return value;
}
