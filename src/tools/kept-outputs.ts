import { CellwrightError } from "../errors.ts";
import { parseFileUri } from "../mcp/uri.ts";
import type { Session } from "../session/session.ts";
import type { Store } from "../store/store.ts";

const FOLDER = ".outputs/";

/** A path as file tools take it. Replies name files by URI too, so that is taken as well, if it is of this session. */
export function pathArgument(path: string, session: Session): string {
  if (!path.startsWith("cell://")) return path;
  const parsed = parseFileUri(path);
  if (parsed?.sessionId === session.id) return parsed.path;
  throw new CellwrightError("path_outside_session", `\`${path.slice(0, 200)}\` is not of session \`${session.id}\`.`);
}

/** What a cell showed and we kept. Undefined if the path does not name such a thing. */
export async function keptOutput(path: string, session: Session, store: Store) {
  return path.startsWith(FOLDER) ? store.getBlob(`cell://${session.id}/${path}`) : undefined;
}

export function refuseKeptOutputs(path: string): void {
  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  if (names[0] !== FOLDER.slice(0, -1)) return;
  throw new CellwrightError("path_outside_session", `\`${FOLDER}\` holds what cells showed and cannot be changed.`, {
    hint: "Choose another folder.",
  });
}
