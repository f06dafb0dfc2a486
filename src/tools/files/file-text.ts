import { showCount } from "../../render/text/amounts.ts";
import { cutText } from "../../render/text/cut.ts";

/** The text of a file, or undefined if it is not text. */
export function decodeText(bytes: Uint8Array, mimeType: string): string | undefined {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return new TextDecoder("utf-16le").decode(bytes);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return new TextDecoder("utf-16be").decode(bytes);
  if (bytes.subarray(0, 100_000).includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    // Old text files use a single-byte encoding; for other types, bytes that are not UTF-8 are binary.
    return mimeType.startsWith("text/") ? new TextDecoder("windows-1252").decode(bytes) : undefined;
  }
}

export interface Page {
  text: string;
  /** The range of lines, the total, and how to get the next page. */
  place: string;
  data: { first_line: number; last_line: number; total_lines: number };
}

/** Lines from `firstLine` on, as many as fit. */
export function pageOf(
  text: string,
  { firstLine, maxLines, maxChars }: { firstLine: number; maxLines: number; maxChars: number },
): Page {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const total = lines.length;
  const first = Math.max(1, firstLine);
  const shown: string[] = [];
  let chars = 0;
  for (const line of lines.slice(first - 1, first - 1 + maxLines)) {
    if (chars + line.length + 1 > maxChars) break;
    chars += line.length + 1;
    shown.push(line);
  }
  const next = lines[first - 1];
  if (shown.length === 0 && next !== undefined && maxLines > 0) shown.push(cutText(next, maxChars - 1));
  const last = first - 1 + shown.length;
  return {
    text: shown.map((line) => `${line}\n`).join(""),
    place: placeOf({ first, last, total }),
    data: { first_line: first, last_line: last, total_lines: total },
  };
}

function placeOf({ first, last, total }: { first: number; last: number; total: number }): string {
  const lines = `${showCount(total)} line${total === 1 ? "" : "s"}`;
  if (total === 0) return "empty";
  if (first > total) return `it has only ${lines}`;
  if (first === 1 && last === total) return lines;
  const next = last < total ? ` · next page: offset_line ${last + 1}` : "";
  return `lines ${showCount(first)}–${showCount(last)} of ${showCount(total)}${next}`;
}
