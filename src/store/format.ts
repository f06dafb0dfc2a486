import { CellwrightError } from "../errors.ts";

/** The layout of a session's folder. A newer one is left alone: guessing at it could destroy it. */
export const FORMAT = 1;

export function checkFormat(format: unknown, sessionId: string): void {
  if (format === undefined || Number(format) <= FORMAT) return;
  const message = `Session \`${sessionId}\` was written by a newer Cellwright (format ${format}, this one knows ${FORMAT}).`;
  throw new CellwrightError("not_supported", message, {
    hint: "Use that version, or another --data-dir. Nothing was changed.",
  });
}
