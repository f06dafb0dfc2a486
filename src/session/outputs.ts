import type { ExecutionEvent, MimeBundle, Output } from "../execution.ts";
import { charsOf as charsKept } from "../output-size.ts";
import type { Spill } from "../store/store.ts";
import { resolveCarriageReturns } from "./carriage-returns.ts";

/** How much of what one cell shows is kept in memory and in its history. The rest of the text goes to the spill. */
export interface OutputLimits {
  /** Characters kept from the beginning, and again from the end, of all that was printed. */
  sideChars: number;
  /** Displays and results kept; later ones are counted and dropped. */
  displays: number;
  /** Size of all kept displays together, as characters of their encoded data. */
  displayChars: number;
}

export const defaultOutputLimits: OutputLimits = { sideChars: 64_000, displays: 100, displayChars: 16_000_000 };

type StreamOutput = Extract<Output, { type: "stream" }>;

/** A piece of a stream costs at least this much, so that a million empty pieces are bounded too. */
const PIECE_COST_CHARS = 64;

/**
 * Folds the events of one cell into what it showed: joins streams, resolves carriage returns, applies updates and
 * clears. Memory stays bounded whatever arrives: the beginning is kept, then the newest text, and what falls out
 * between them is in the spill.
 */
export class Outputs {
  readonly #limits: OutputLimits;
  readonly #openSpill: (() => Spill) | undefined;
  #spill: Spill | undefined;
  #head: Output[] = [];
  #headChars = 0;
  #tail: Output[] = [];
  #tailChars = 0;
  #omittedChars = 0;
  #displays = 0;
  #displayChars = 0;
  #droppedDisplays = 0;
  #clearOnNext = false;
  #lastLine = "";

  constructor(limits: OutputLimits, openSpill?: () => Spill) {
    this.#limits = limits;
    this.#openSpill = openSpill;
  }

  add(event: ExecutionEvent): void {
    if (event.type === "done") return;
    if (event.type === "clear") {
      if (event.wait) this.#clearOnNext = true;
      else this.#clear();
      return;
    }
    if (this.#clearOnNext) this.#clear();
    if (event.type === "stream") this.#addText(event.name, event.text.toWellFormed());
    else if (event.type === "update") this.#update(event.displayId, event.data);
    else this.#addDisplay(event);
  }

  get spillUri(): string | undefined {
    this.#settle();
    return this.#spill?.uri;
  }

  /** `full` is where the whole text is kept, if not in a spill of our own. */
  list(givenFull?: string): Output[] {
    this.#settle();
    const full = givenFull ?? this.#spill?.uri;
    const outputs = this.#head.map((output) => ({ ...output }));
    let omitted = this.#omittedChars;
    for (const output of this.#tail) {
      const last = outputs.at(-1);
      if (output.type !== "stream") {
        outputs.push({ ...output });
        continue;
      }
      const cut = omitted > 0 ? { at: 0, chars: omitted, ...(full ? { full } : {}) } : undefined;
      omitted = 0;
      if (last?.type === "stream" && last.name === output.name && !last.cut) {
        if (cut) last.cut = { ...cut, at: last.text.length };
        last.text += output.text;
      } else outputs.push({ ...output, ...(cut ? { cut } : {}) });
    }
    return outputs;
  }

  /** What all of it takes in memory, near enough. */
  get chars(): number {
    return [...this.#head, ...this.#tail].reduce((sum, output) => sum + charsKept(output), 0);
  }

  get droppedDisplays(): number {
    return this.#droppedDisplays;
  }

  /** The newest line that was printed and is not empty, shortened: for progress. */
  get lastLine(): string {
    return this.#lastLine;
  }

  get isEmpty(): boolean {
    return this.#head.length === 0 && this.#tail.length === 0;
  }

  async close(): Promise<void> {
    await this.#spill?.close();
  }

  #addText(name: "stdout" | "stderr", text: string): void {
    if (text === "") return;
    this.#spill?.write(text);
    this.#rememberLine(text);
    const inTail = this.#headChars >= this.#limits.sideChars || this.#tail.length > 0;
    const side = inTail ? this.#tail : this.#head;
    const last = side.at(-1);
    let grown: number;
    if (last?.type === "stream" && last.name === name) {
      const before = last.text.length;
      appendText(last, text);
      grown = last.text.length - before;
    } else {
      const piece: StreamOutput = { type: "stream", name, text: "" };
      appendText(piece, text);
      side.push(piece);
      grown = Math.max(piece.text.length, PIECE_COST_CHARS);
    }
    if (!inTail) {
      this.#headChars += grown;
      this.#splitHead();
    } else this.#tailChars += grown;
    // Not each time: going through the tail for each of a million small pieces would leave no time for anything else.
    if (this.#tailChars > 2 * this.#limits.sideChars) this.#trimTail();
  }

  /** One large text can overfill the head: what is over goes to the tail. */
  #splitHead(): void {
    const over = this.#headChars - this.#limits.sideChars;
    const last = this.#head.at(-1);
    if (over <= 0 || last?.type !== "stream" || last.text.length <= over) return;
    const at = wholeCharacter(last.text, last.text.length - over);
    this.#tail.push({ type: "stream", name: last.name, text: last.text.slice(at) });
    last.text = last.text.slice(0, at);
    this.#headChars = this.#limits.sideChars;
    this.#tailChars = over;
  }

  /** Before anybody looks. */
  #settle(): void {
    if (this.#tailChars > this.#limits.sideChars) this.#trimTail();
  }

  #trimTail(): void {
    if (!this.#spill && this.#openSpill) {
      this.#spill = this.#openSpill();
      for (const output of [...this.#head, ...this.#tail]) if (output.type === "stream") this.#spill.write(output.text);
    }
    let over = this.#tailChars - this.#limits.sideChars;
    const kept: Output[] = [];
    for (const output of this.#tail) {
      const cost = output.type === "stream" ? Math.max(output.text.length, PIECE_COST_CHARS) : 0;
      if (output.type !== "stream" || over <= 0) kept.push(output);
      else if (cost <= over) {
        this.#omittedChars += output.text.length;
        this.#tailChars -= cost;
        over -= cost;
      } else {
        const at = wholeCharacter(output.text, over);
        kept.push({ ...output, text: output.text.slice(at) });
        this.#omittedChars += at;
        this.#tailChars -= at;
        over = 0;
      }
    }
    this.#tail = kept;
  }

  #addDisplay(event: Extract<ExecutionEvent, { type: "display" | "result" | "error" }>): void {
    const chars = charsOf(event.type === "error" ? event : event.data);
    if (this.#displays >= this.#limits.displays || this.#displayChars + chars > this.#limits.displayChars) {
      this.#droppedDisplays += 1;
      return;
    }
    this.#displays += 1;
    this.#displayChars += chars;
    this.#push(event);
  }

  #push(output: Output): void {
    (this.#tail.length > 0 || this.#headChars >= this.#limits.sideChars ? this.#tail : this.#head).push({ ...output });
  }

  #update(displayId: string, data: MimeBundle): void {
    const shown = [...this.#head, ...this.#tail].filter(
      (output) => output.type === "display" && output.displayId === displayId,
    );
    // A display that an earlier cell made, or that was looked at already: its new state is news here.
    if (shown.length === 0) this.#addDisplay({ type: "display", data, displayId });
    for (const output of shown) {
      if (output.type !== "display") continue;
      const grown = charsOf(data) - charsOf(output.data);
      if (this.#displayChars + grown > this.#limits.displayChars) {
        this.#droppedDisplays += 1;
        continue;
      }
      this.#displayChars += grown;
      output.data = data;
    }
  }

  #clear(): void {
    this.#clearOnNext = false;
    this.#head = [];
    this.#tail = [];
    this.#headChars = this.#tailChars = this.#omittedChars = this.#displays = this.#displayChars = 0;
  }

  #rememberLine(text: string): void {
    const line = text
      .slice(-1000)
      .split(/[\r\n]/)
      .findLast((candidate) => candidate.trim() !== "");
    if (line) this.#lastLine = line.trim().slice(-200);
  }
}

/** A place to cut near `at` that is not between the two halves of a character. */
function wholeCharacter(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}

/** Joins text to a stream; only the unfinished last line can still be changed by a carriage return. */
function appendText(output: StreamOutput, text: string): void {
  const lineStart = output.text.lastIndexOf("\n") + 1;
  const openLine = output.text.slice(lineStart);
  output.text =
    openLine.includes("\r") || text.includes("\r")
      ? output.text.slice(0, lineStart) + resolveCarriageReturns(openLine + text)
      : output.text + text;
}

/** What a bundle, or another object of texts, takes; its keys count, too. */
function charsOf(data: object): number {
  let chars = 0;
  for (const [key, value] of Object.entries(data)) {
    chars += key.length + KEY_CHARS;
    chars += typeof value === "string" ? value.length : (JSON.stringify(value)?.length ?? 0);
  }
  return chars;
}

/** What an entry of an object takes besides its texts, roughly. */
const KEY_CHARS = 64;
