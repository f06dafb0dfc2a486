import { CellwrightError } from "../errors.ts";

/** Deeper than any real project; walking a path holds one file descriptor per level. */
export const MAX_DEPTH = 128;

/** Splits a caller's path into names. Refuses, by syntax alone, everything that could lead outside. */
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

/** For messages: a name may contain line ends and terminal escapes, and be very long. */
export function shown(path: string): string {
  const short = path.length > 200 ? `${path.slice(0, 200)}…` : path;
  return short.replace(/[\p{Cc}\p{Cf}\p{Cs}`]/gu, "�");
}

/** Also refuses `..` that appears only after decoding, once or more: such a path is an attempt to evade this check. */
function climbs(path: string): boolean {
  let decoded = path;
  for (let before = ""; before !== decoded; ) {
    before = decoded;
    decoded = decoded.replace(/%(2e|2f|5c|25)/gi, (code) => String.fromCharCode(Number.parseInt(code.slice(1), 16)));
  }
  return decoded.split(/[/\\]/).includes("..");
}
