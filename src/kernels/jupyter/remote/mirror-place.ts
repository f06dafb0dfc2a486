import type { Json } from "../../../execution.ts";
import type { Call } from "./helper.ts";

/** A server that keeps copies of sessions. */
export interface MirrorPlace {
  /** For people. */
  name: string;
  call: Call;
  notebooksFolder: string;
  /** This program, as `instances.ts` announces it there. */
  instance: string;
}

/** Copied once and then only what came after it: nothing in them ever changes. */
export const JOURNAL = "journal.ndjson";
export const OUTPUTS = "outputs";
/** Copied whole when they changed. */
export const RECORD = "session.json";
export const RUN = "run";

const name = "[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}";
const kept = new RegExp(`^(session\\.json|journal\\.ndjson|outputs/${name}|run/${name}\\.json)$`);

/** What a server has is not to be believed: a path that it names is written to on this machine. */
export function isKept(path: string): boolean {
  return kept.test(path);
}

export function askPlace<T>(place: MirrorPlace, operation: string, args: Record<string, Json>): Promise<T> {
  return place.call<T>(operation, { notebooks: place.notebooksFolder, ...args });
}

export interface Look {
  /** Sizes by path. */
  files: Record<string, number>;
  /** The SHA-256 of as much of the journal as was asked for, or of all of it if it is shorter. */
  journal: string | null;
}

export async function look(place: MirrorPlace, sessionId: string, journalBytes: number): Promise<Look> {
  const found = await askPlace<Look>(place, "mirror_look", { session: sessionId, journal_bytes: journalBytes });
  return { ...found, files: Object.fromEntries(Object.entries(found.files).filter(([path]) => isKept(path))) };
}
