import { CellwrightError } from "../errors.ts";

/** Version of a session folder's layout. A newer one is left alone: guessing at it could destroy data. */
export const FORMAT = 1;

export function checkFormat(format: unknown, sessionId: string): void {
  if (format === undefined || Number(format) <= FORMAT) return;
  const message = `Session \`${sessionId}\` was written by a newer Cellwright (format ${format}, this version supports up to ${FORMAT}).`;
  throw new CellwrightError("not_supported", message, {
    hint: "Use that version, or another --data-dir. Nothing was changed.",
  });
}
