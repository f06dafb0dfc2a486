import { inLineEndsOf } from "./edit-text.ts";

export interface LooseEdit {
  oldText: string;
  newText: string;
  replaceAll: boolean;
}

/** The new text, or the number of matches if it is not one. */
export type LooselyEdited = { text: string; replaced: number } | { found: number };

/**
 * Replaces text that a model may have remembered imprecisely: an exact match, else whole lines that differ in leading
 * and trailing whitespace, else, if several match, the one whose relative indentation is the same.
 */
export function editLoosely(text: string, edit: LooseEdit): LooselyEdited {
  const exact = exactPlaces(text, edit.oldText);
  const places = exact.length > 0 ? exact : loosePlaces(text, edit);
  if (places.length === 0 || (places.length > 1 && !edit.replaceAll)) return { found: places.length };
  if (edit.oldText === edit.newText) return { text, replaced: places.length };
  let edited = "";
  let at = 0;
  for (const { start, end, isExact } of places) {
    edited += text.slice(at, start) + (isExact ? edit.newText : inLineEndsOf(text, edit.newText));
    at = end;
  }
  return { text: edited + text.slice(at), replaced: places.length };
}

interface Place {
  start: number;
  end: number;
  isExact: boolean;
}

/** Non-overlapping matches, from the left. */
function exactPlaces(text: string, wanted: string): Place[] {
  const places: Place[] = [];
  for (let start = text.indexOf(wanted); start >= 0; ) {
    const end = start + wanted.length;
    places.push(wholeLines(text, start, end) ?? { start, end, isExact: true });
    start = text.indexOf(wanted, end);
  }
  return places;
}

/** A match surrounded only by whitespace on its lines stands for the whole lines. */
function wholeLines(text: string, start: number, end: number): Place | undefined {
  const lineStart = text.lastIndexOf("\n", start - 1) + 1;
  const blanks = /^[^\S\n]*/.exec(text.slice(end))?.[0].replace(/\r$/, "") ?? "";
  const next = text.slice(end + blanks.length);
  const isEnd = next === "" || /^\r?\n/.test(next);
  if (blanks === "" || !isEnd || text.slice(lineStart, start).trim() !== "") return undefined;
  return { start: lineStart, end: end + blanks.length, isExact: false };
}

function loosePlaces(text: string, { oldText, replaceAll }: LooseEdit): Place[] {
  const wanted = oldText.split("\n");
  const takesLastEnd = wanted.length > 1 && wanted.at(-1) === "";
  if (takesLastEnd) wanted.pop();
  const trimmed = wanted.map((line) => line.trim());
  if (trimmed.every((line) => line === "")) return [];
  const lines = text.split("\n");
  const starts = lineStarts(lines);
  const found: number[] = [];
  for (let at = 0; at + wanted.length <= lines.length; at += 1) {
    if (!trimmed.every((line, index) => lines[at + index]?.trim() === line)) continue;
    found.push(at);
    at += wanted.length - 1;
  }
  const alike = found.filter((at) => isIndentedAlike(lines.slice(at, at + wanted.length), wanted));
  const meant = !replaceAll && found.length > 1 && alike.length > 0 ? alike : found;
  return meant.map((at) => {
    const last = at + wanted.length - 1;
    const start = starts[at] ?? 0;
    const lastLine = lines[last] ?? "";
    const end = (starts[last] ?? 0) + lastLine.length;
    if (takesLastEnd) return { start, end: Math.min(end + 1, text.length), isExact: false };
    return { start, end: end - (lastLine.endsWith("\r") ? 1 : 0), isExact: false };
  });
}

function lineStarts(lines: string[]): number[] {
  let start = 0;
  return lines.map((line) => {
    const at = start;
    start += line.length + 1;
    return at;
  });
}

function isIndentedAlike(lines: string[], wanted: string[]): boolean {
  const one = withoutIndent(lines);
  const other = withoutIndent(wanted);
  return one.every((line, index) => line === other[index]);
}

/** Without the common indent and trailing whitespace. */
function withoutIndent(lines: string[]): string[] {
  const ends = lines.map((line) => line.trimEnd());
  const indents = ends.filter((line) => line !== "").map((line) => /^\s*/.exec(line)?.[0] ?? "");
  const [first = ""] = indents;
  let shared = first.length;
  for (const indent of indents) {
    while (!indent.startsWith(first.slice(0, shared))) shared -= 1;
  }
  return ends.map((line) => line.slice(shared));
}
