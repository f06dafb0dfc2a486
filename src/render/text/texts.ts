import type { Output } from "../../execution.ts";
import { cutText, type Gap, mark, shareOut } from "./cut.ts";
import { plainText } from "./terminal.ts";

/** Kept of each end of one output: no reply can show more. */
const SIDE_CHARS = 300_000;

/** Placeholder for the clause that names the file, while there is no file yet. */
const SOME_PLACE = "x".repeat(80);

/** The part of an output's URI that read_file accepts as a path. */
export function outputPath(uri: string): string {
  return uri.slice(uri.indexOf("/", "cell://".length) + 1);
}

/** Consecutive text in a reply. */
export class Text {
  /** How it is truncated: an exception is the last to be cut, and keeps its end. */
  readonly kind: "output" | "error" | "late";
  shown = "";
  readonly gaps: Gap[] = [];
  /** URI of the full text, once known. */
  full: string | undefined;
  #pieces: string[] = [];
  /** Some of it was dropped before it reached the server. */
  #hasHoles = false;

  constructor(kind: Text["kind"]) {
    this.kind = kind;
  }

  get isEmpty(): boolean {
    return this.shown === "" && this.gaps.length === 0;
  }

  /** The full text, without the limit of a reply. */
  get whole(): string {
    return this.#pieces.join("");
  }

  /** A clause that names the file with the full text. */
  get where(): string | undefined {
    if (!this.full) return undefined;
    return `${this.#hasHoles ? "more" : "all"} of it is in ${outputPath(this.full)}`;
  }

  /** Length without truncation. */
  get chars(): number {
    return (
      this.shown.length + this.gaps.reduce((sum, gap) => sum + mark(gap.chars, this.where ?? SOME_PLACE).length, 0)
    );
  }

  /** Adds output of a cell, as a terminal would show it. */
  add(text: string): void {
    this.#pieces.push(text);
    if (text.length <= 2 * SIDE_CHARS) this.shown += plainText(text);
    else {
      this.shown += plainText(text.slice(0, SIDE_CHARS));
      this.gaps.push({ at: this.shown.length, chars: text.length - 2 * SIDE_CHARS });
      this.shown += plainText(text.slice(-SIDE_CHARS));
    }
  }

  addStream({ text, cut }: Extract<Output, { type: "stream" }>): void {
    if (!cut) {
      this.add(text);
      return;
    }
    this.#pieces.push(text.slice(0, cut.at), mark(cut.chars), text.slice(cut.at));
    this.shown += plainText(text.slice(0, cut.at));
    this.gaps.push({ at: this.shown.length, chars: cut.chars });
    this.shown += plainText(text.slice(cut.at));
    this.full ??= cut.full;
    this.#hasHoles ||= cut.full === undefined;
  }

  /** Adds trusted text as is. */
  addOwn(text: string): void {
    this.startLine();
    this.#pieces.push(text);
    this.shown += text;
  }

  /** Adds output of a cell on separate lines. */
  addLines(lines: string): void {
    this.startLine();
    this.add(lines);
    this.startLine();
  }

  startLine(): void {
    if (this.shown === "" || this.shown.endsWith("\n")) return;
    this.#pieces.push("\n");
    this.shown += "\n";
  }
}

/**
 * Distributes the budget. Exceptions come first, beginning with the last one, because they say what to do next; then
 * late output, which the caller did not ask for, up to a quarter; then equal shares for the rest.
 */
export function cutAll(texts: Text[], budget: number): Map<Text, string> {
  const shown = new Map<Text, string>();
  const ofKind = (kind: Text["kind"]) => texts.filter((text) => text.kind === kind);
  let left = budget;
  for (const text of ofKind("error").reverse()) cut(text, Math.min(text.chars, budget * 0.4, left * 0.6), 0.3);
  cutAlike(ofKind("late"), Math.min(left, budget * 0.25));
  cutAlike(ofKind("output"), left);
  return shown;

  function cutAlike(own: Text[], total: number): void {
    const needs = own.map((text) => text.chars);
    const shares = shareOut(needs, Math.max(0, total));
    for (const [index, text] of own.entries()) cut(text, shares[index] ?? 0, 0.5);
  }

  function cut(text: Text, share: number, headShare: number): void {
    const { gaps, where } = text;
    const result = cutText(text.shown, Math.floor(share), { gaps, headShare, where });
    shown.set(text, result);
    left -= result.length;
  }
}
