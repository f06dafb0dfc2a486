import { CellwrightError } from "../errors.ts";

/** Replaces a piece of a text that must be there, and once unless all are meant. Says what is wrong otherwise. */
export function editText(
  text: string,
  { oldText, newText, replaceAll }: { oldText: string; newText: string; replaceAll: boolean },
): { text: string; replaced: number } {
  if (oldText === newText) throw new CellwrightError("edit_failed", "old_text and new_text are the same.");
  const [wanted, replacement] = sameLineEnds(text, oldText, newText);
  const pieces = text.split(wanted);
  const found = pieces.length - 1;
  if (found === 0) throw new CellwrightError("edit_failed", `old_text is not in the file.${nearMisses(text, oldText)}`);
  if (found > 1 && !replaceAll) {
    const lines = matchLines(pieces, wanted).slice(0, 10).join(", ");
    throw new CellwrightError("edit_failed", `old_text is there ${found} times, at lines ${lines}.`, {
      hint: "Give more of the text around the one that is meant, or set replace_all.",
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

/** Lines that differ from the first wanted one only in spaces or letter case: the usual mistakes. */
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
  if (near.length === 0) return " No line is like its first line.";
  return ` Its first line is like ${near.join("; ")}.`;
}
