import { CellwrightError } from "../../errors.ts";

/** Replaces text that must occur exactly once, or any number of times with `replaceAll`. Throws `edit_failed` otherwise. */
export function editText(
  text: string,
  { oldText, newText, replaceAll }: { oldText: string; newText: string; replaceAll: boolean },
): { text: string; replaced: number } {
  if (oldText === newText) throw new CellwrightError("edit_failed", "old_text and new_text are the same.");
  const [wanted, replacement] = sameLineEnds(text, oldText, newText);
  const pieces = text.split(wanted);
  const found = pieces.length - 1;
  if (found === 0)
    throw new CellwrightError("edit_failed", `old_text was not found in the file.${nearMisses(text, oldText)}`);
  if (found > 1 && !replaceAll) {
    const lines = matchLines(pieces, wanted).slice(0, 10).join(", ");
    throw new CellwrightError("edit_failed", `old_text occurs ${found} times, at lines ${lines}.`, {
      hint: "Include more of the surrounding text, or set replace_all.",
    });
  }
  return { text: pieces.join(replacement), replaced: found };
}

/** Models write `\n`; a file from Windows has `\r\n`. */
function sameLineEnds(text: string, oldText: string, newText: string): [string, string] {
  if (text.includes(oldText)) return [oldText, newText];
  return [inLineEndsOf(text, oldText), inLineEndsOf(text, newText)];
}

export function inLineEndsOf(text: string, part: string): string {
  return text.includes("\r\n") ? part.replace(/\r?\n/g, "\r\n") : part;
}

function matchLines(pieces: string[], wanted: string): number[] {
  const lines: number[] = [];
  let line = 1;
  for (const piece of pieces.slice(0, -1)) {
    line += lineEnds(piece);
    lines.push(line);
    line += lineEnds(wanted);
  }
  return lines;
}

const lineEnds = (text: string) => text.split("\n").length - 1;

/** Lines that differ from the first line of `oldText` only in whitespace or case: the usual mistakes. */
function nearMisses(text: string, oldText: string): string {
  const same = (line: string) => line.replace(/\s+/g, " ").trim().toLowerCase();
  const first = oldText.split("\n").find((line) => line.trim() !== "");
  if (first === undefined) return "";
  const wanted = same(first);
  const near = text
    .split("\n")
    .flatMap((line, index) =>
      line.length < 10_000 && same(line).includes(wanted) ? [{ line, number: index + 1 }] : [],
    )
    .slice(0, 3)
    .map(({ line, number }) => `line ${number}: \`${line.trimEnd().slice(0, 200)}\``);
  if (near.length === 0) return " No line resembles its first line.";
  return ` Its first line resembles ${near.join("; ")}.`;
}
