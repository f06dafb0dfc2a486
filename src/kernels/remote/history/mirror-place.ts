import type { Json } from "../../../execution.ts";
import type { Call, CallOptions } from "../files/helper.ts";

/** A server that keeps copies of sessions, and the registry of who uses it. */
export interface MirrorPlace {
  /** For messages. */
  name: string;
  call: Call;
  notebooksFolder: string;
  /** This process, as registered by `instances.ts`: unique per start, the same on all servers. */
  instance: string;
}

/** Append-only: only the new tail is copied. */
export const JOURNAL = "journal.ndjson";
export const OUTPUTS = "outputs";
/** Copied whole when changed. */
export const RECORD = "session.json";
export const RUN = "run";

const name = "[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}";
const kept = new RegExp(`^(session\\.json|journal\\.ndjson|outputs/${name}|run/${name}\\.json)$`);

/** Servers are not trusted: the paths they return are written to on this machine. */
export function isKept(path: string): boolean {
  return kept.test(path);
}

export function askPlace<T>(
  { call, notebooksFolder }: MirrorPlace,
  operation: string,
  args: Record<string, Json>,
  options?: CallOptions,
): Promise<T> {
  return call<T>(operation, { notebooks: notebooksFolder, ...args }, options);
}

export interface Look {
  /** Sizes by path. */
  files: Record<string, number>;
  /** SHA-256 of the journal's first bytes, as many as requested, or of all of it if it is shorter. */
  journal: string | null;
}

export async function look(place: MirrorPlace, sessionId: string, journalBytes: number): Promise<Look> {
  const found = await askPlace<Look>(place, "mirror_look", { session: sessionId, journal_bytes: journalBytes });
  return { ...found, files: Object.fromEntries(Object.entries(found.files).filter(([path]) => isKept(path))) };
}
