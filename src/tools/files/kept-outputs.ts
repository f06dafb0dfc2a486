import type { Session } from "../../engine/session/session.ts";
import { CellwrightError } from "../../errors.ts";
import type { Store } from "../../store/store.ts";
import { parseFileUri } from "../uri.ts";

const FOLDER = ".outputs/";

/** A path argument of a file tool. Replies also name files by URI, so a URI of this session is accepted, too. */
export function pathArgument(path: string, session: Session): string {
  if (!path.startsWith("cell://")) return path;
  const parsed = parseFileUri(path);
  if (parsed?.sessionId === session.id) return parsed.path;
  throw new CellwrightError("path_outside_session", `\`${path.slice(0, 200)}\` is not in session \`${session.id}\`.`);
}

/** A kept output. Undefined if the path does not name one. */
export async function keptOutput(path: string, session: Session, store: Store) {
  return path.startsWith(FOLDER) ? store.getBlob(`cell://${session.id}/${path}`) : undefined;
}

export function refuseKeptOutputs(path: string): void {
  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  if (names[0] !== FOLDER.slice(0, -1)) return;
  throw new CellwrightError("path_outside_session", `\`${FOLDER}\` holds kept outputs and is read-only.`, {
    hint: "Choose another folder.",
  });
}
