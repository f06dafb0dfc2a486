import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Identity, identityOf } from "../../../reach/way.ts";

/** The environments that each workspace contained when it was first used. */
type Record = { [workspace: Identity]: Identity[] };

/**
 * The environments that a workspace contained before sessions' code ran in it. Code may have created later ones to be
 * trusted at the next start: only --env vouches for those.
 */
export function knownSince(stateDir: string, workspace: string, found: string[]): string[] {
  const id = identityOf(workspace);
  if (id === undefined) return [];
  const file = join(stateDir, "workspaces.json");
  const record = read(file);
  const first = record[id];
  if (first) return found.filter((path) => first.includes(identityOf(path) ?? ""));
  record[id] = found.map(identityOf).filter((each) => each !== undefined);
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  writeFileSync(file, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600 });
  return found;
}

function read(file: string): Record {
  try {
    const parsed: unknown = JSON.parse(readFileSync(file, "utf8"));
    const entries = Object.entries(parsed as object).filter(([, ids]) => Array.isArray(ids));
    return Object.fromEntries(entries.map(([id, ids]) => [id, ids.map(String)]));
  } catch {
    return {};
  }
}
