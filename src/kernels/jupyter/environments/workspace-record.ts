import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Identity, identityOf } from "../../../reach/way.ts";

/** By the identity of a workspace: the environments that were in it when it was first used. */
type Record = { [workspace: Identity]: Identity[] };

/**
 * Those environments of a workspace that were there before code of sessions worked in it. One that came later may be the
 * operator's, or may have been made by code for the next start to trust: only --env vouches for it.
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
