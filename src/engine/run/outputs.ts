import { charsOf, type ExecutionEvent, type MimeBundle, type Output, type Shown } from "../../execution.ts";
import type { Spill } from "../../store/store.ts";
import { resolveCarriageReturns } from "./carriage-returns.ts";

/** Limits on what is kept of one cell's output in memory and in the history. The rest of the text goes to the spill. */
export interface OutputLimits {
  /** Characters kept from the beginning and from the end of the printed text, each. */
  sideChars: number;
  /** Displays and results kept; later ones are counted and dropped. */
  displays: number;
  /** Total size of kept displays, in characters of their encoded data. */
  displayChars: number;
}

export const defaultOutputLimits: OutputLimits = { sideChars: 64_000, displays: 100, displayChars: 16_000_000 };

type StreamOutput = Extract<Output, { type: "stream" }>;

/** Minimum cost of a stream piece, so that a million empty pieces are bounded too. */
const PIECE_COST_CHARS = 64;

/**
 * Folds the events of one cell into its outputs: joins streams, resolves carriage returns, applies updates and clears.
 * Memory is bounded: the beginning and the newest text are kept, the spill has everything between.
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

  /** `givenFull`: the URI of the full text, if it is not in this object's spill. */
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

  /** Approximate memory use. */
  get chars(): number {
    return [...this.#head, ...this.#tail].reduce((sum, output) => sum + charsOf(output), 0);
  }

  get droppedDisplays(): number {
    return this.#droppedDisplays;
  }

  /** The newest non-empty printed line, shortened, for progress messages. */
  get lastLine(): string {
    return this.#lastLine;
  }

  async close(): Promise<void> {
    await this.#spill?.close();
  }

  /** Where output is added: the head until it is full. */
  get #newestSide(): Output[] {
    return this.#tail.length > 0 || this.#headChars >= this.#limits.sideChars ? this.#tail : this.#head;
  }

  #addText(name: "stdout" | "stderr", text: string): void {
    if (text === "") return;
    this.#spill?.write(text);
    this.#rememberLine(text);
    const side = this.#newestSide;
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
    if (side === this.#head) {
      this.#headChars += grown;
      this.#splitHead();
    } else this.#tailChars += grown;
    // Not on every call: scanning the tail for each of a million small pieces would take quadratic time.
    if (this.#tailChars > 2 * this.#limits.sideChars) this.#trimTail();
  }

  /** Moves what exceeds the head to the tail. */
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

  /** Trims the tail before it is read. */
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

  #addDisplay(event: Shown): void {
    const chars = encodedChars(event.type === "error" ? event : event.data);
    if (this.#displays >= this.#limits.displays || this.#displayChars + chars > this.#limits.displayChars) {
      this.#droppedDisplays += 1;
      return;
    }
    this.#displays += 1;
    this.#displayChars += chars;
    this.#newestSide.push({ ...event });
  }

  #update(displayId: string, data: MimeBundle): void {
    const shown = [...this.#head, ...this.#tail].filter(
      (output) => output.type === "display" && output.displayId === displayId,
    );
    // A display of an earlier cell, or one that was returned already: show its new state here.
    if (shown.length === 0) this.#addDisplay({ type: "display", data, displayId });
    for (const output of shown) {
      if (output.type !== "display") continue;
      const grown = encodedChars(data) - encodedChars(output.data);
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

/** A cut position near `at` that does not split a surrogate pair. */
function wholeCharacter(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}

/** Appends text to a stream. A carriage return can only change the unfinished last line. */
function appendText(output: StreamOutput, text: string): void {
  const lineStart = output.text.lastIndexOf("\n") + 1;
  const openLine = output.text.slice(lineStart);
  output.text =
    openLine.includes("\r") || text.includes("\r")
      ? output.text.slice(0, lineStart) + resolveCarriageReturns(openLine + text)
      : output.text + text;
}

/** Approximate size of a MIME bundle or a similar object, including its keys. */
function encodedChars(data: object): number {
  let chars = 0;
  for (const [key, value] of Object.entries(data)) {
    chars += key.length + KEY_CHARS;
    chars += typeof value === "string" ? value.length : (JSON.stringify(value)?.length ?? 0);
  }
  return chars;
}

/** Approximate overhead of an object entry. */
const KEY_CHARS = 64;
