import type { Output } from "../../execution.ts";
import { type Gap, mark } from "./cut.ts";
import { plainText } from "./terminal.ts";

/** Of one form of one output, from each end: what is between can not be shown in any reply. */
const SIDE_CHARS = 300_000;

/** As long as the clause that names a file, for a text that is not in one yet. */
const SOME_PLACE = "x".repeat(80);

/** The part of an output's URI that read_file takes, too. */
export function outputPath(uri: string): string {
  return uri.slice(uri.indexOf("/", "cell://".length) + 1);
}

/** Text that stands together in a reply. */
export class Text {
  /** How it is cut if it is too long: an exception says most at its end, and is cut last. */
  readonly kind: "output" | "error" | "late";
  shown = "";
  readonly gaps: Gap[] = [];
  /** Where the whole of it is, once that is known. */
  full: string | undefined;
  #pieces: string[] = [];
  /** Some of it was gone before we got it. */
  #hasHoles = false;

  constructor(kind: Text["kind"]) {
    this.kind = kind;
  }

  get isEmpty(): boolean {
    return this.shown === "" && this.gaps.length === 0;
  }

  /** All that was added, also what is too long to be shown. */
  get whole(): string {
    return this.#pieces.join("");
  }

  /** Where the reader finds what is left out, as a clause. */
  get where(): string | undefined {
    if (!this.full) return undefined;
    return `${this.#hasHoles ? "more" : "all"} of it is in ${outputPath(this.full)}`;
  }

  /** How long it is with nothing left out. */
  get chars(): number {
    return (
      this.shown.length + this.gaps.reduce((sum, gap) => sum + mark(gap.chars, this.where ?? SOME_PLACE).length, 0)
    );
  }

  /** Adds what a cell printed or said, as a terminal would show it. */
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

  /** Adds a line of ours, or text that is clean already. */
  addOwn(text: string): void {
    this.startLine();
    this.#pieces.push(text);
    this.shown += text;
  }

  /** Adds what a cell showed, on lines of its own. */
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
