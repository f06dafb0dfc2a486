/** What is kept of one sequence that has begun: colours have some ten characters. */
const MAX_SEQUENCE_CHARS = 64;

/** Line ends, tabs, and what progress bars write their line again with. */
const plain = new Set(["\n", "\r", "\t", "\b"]);
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const control = /[\u0000-\u001f\u007f-\u009f]/;
/** Colours, and erasing in the line. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: sequences begin with it
const harmless = /^\u001b\[(?:[0-9;:]*m|[0-2]?K)$/;

/**
 * Text of user code on its way to a terminal, in pieces: colours and progress bars stay. What would move the cursor
 * elsewhere, set the title, write to the clipboard, or make the terminal type something is left out.
 */
export class TerminalText {
  /** A sequence that has begun; it may go on in the next piece. */
  #sequence = "";
  #isString = false;

  push(text: string): string {
    let shown = "";
    for (const char of text) shown += this.#next(char);
    return shown;
  }

  #next(char: string): string {
    // No sequence spans lines: one that never ends does not swallow what follows.
    if (char === "\n") return this.#end("\n");
    if (this.#sequence === "") {
      if (!control.test(char)) return char;
      if (char === "\u001b") this.#sequence = char;
      return plain.has(char) ? char : "";
    }
    if (this.#isString) return this.#inString(char);
    if (char === "\u001b") {
      this.#sequence = char;
      return "";
    }
    this.#sequence += char;
    if (this.#sequence.length === 2 && /[\]PX^_]/.test(char)) {
      this.#isString = true;
      return "";
    }
    const isOver = this.#sequence[1] === "[" ? /[^\d;:<=>? -/[]/.test(char) : !/[ -/]/.test(char);
    if (this.#sequence.length > MAX_SEQUENCE_CHARS) return this.#end("");
    return isOver ? this.#end(harmless.test(this.#sequence) ? this.#sequence : "") : "";
  }

  /** A title, a link, or data for the terminal: until BEL or ESC \. */
  #inString(char: string): string {
    const isOver = char === "\u0007" || char === "\u009c" || (char === "\\" && this.#sequence.endsWith("\u001b"));
    this.#sequence = char === "\u001b" ? "\u001b]\u001b" : "\u001b]";
    return isOver ? this.#end("") : "";
  }

  #end(shown: string): string {
    this.#sequence = "";
    this.#isString = false;
    return shown;
  }
}
