import { CellwrightError } from "../errors.ts";

/** Deeper than any real project; each level of a path is one open directory while it is walked. */
export const MAX_DEPTH = 128;

/** The names of a path given by a caller. Everything that could mean a place outside is refused by its looks alone. */
export function namesOf(path: string): string[] {
  if (path.includes("\0")) throw outside(path, "it contains a NUL");
  if (path.includes("\\")) throw outside(path, "it contains a backslash");
  if (path.startsWith("/")) throw outside(path, "it is absolute");
  if (process.platform === "win32" && path.includes(":")) throw outside(path, "it contains a colon");
  if (!path.isWellFormed()) throw new CellwrightError("invalid_input", `\`${shown(path)}\` is not valid Unicode.`);
  if (climbs(path)) throw outside(path, "it contains `..`");
  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  if (names.length > MAX_DEPTH) {
    throw new CellwrightError("invalid_input", `\`${shown(path)}\` has more than ${MAX_DEPTH} levels.`);
  }
  return names;
}

export function outside(path: string, reason: string): CellwrightError {
  return new CellwrightError("path_outside_session", `\`${shown(path)}\` was refused: ${reason}.`);
}

/** For messages: a name may hold line ends and terminal escapes, and be as long as it likes. */
export function shown(path: string): string {
  const short = path.length > 200 ? `${path.slice(0, 200)}…` : path;
  return short.replace(/[\p{Cc}\p{Cf}\p{Cs}`]/gu, "�");
}

/** Also when `..` shows only after decoding, once or more: whoever wrote it so meant to get past a check like this. */
function climbs(path: string): boolean {
  let decoded = path;
  for (let before = ""; before !== decoded; ) {
    before = decoded;
    decoded = decoded.replace(/%(2e|2f|5c|25)/gi, (code) => String.fromCharCode(Number.parseInt(code.slice(1), 16)));
  }
  return decoded.split(/[/\\]/).includes("..");
}
