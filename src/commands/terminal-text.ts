/** Limit of one escape sequence: colors take about ten characters. */
const MAX_SEQUENCE_CHARS = 64;

/** Line ends, tabs, and what progress bars use to rewrite their line. */
const plain = new Set(["\n", "\r", "\t", "\b"]);
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const control = /[\u0000-\u001f\u007f-\u009f]/;
/** Colors, and erasing within the line. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: sequences begin with it
const harmless = /^\u001b\[(?:[0-9;:]*m|[0-2]?K)$/;

/**
 * Sanitizes output of user code for a terminal, chunk by chunk. Colors and progress bars stay; sequences that move the
 * cursor elsewhere, set the title, write to the clipboard, or make the terminal send input are removed.
 */
export class TerminalText {
  /** An incomplete sequence; it may continue in the next chunk. */
  #sequence = "";
  #isString = false;

  push(text: string): string {
    let shown = "";
    for (const char of text) shown += this.#next(char);
    return shown;
  }

  #next(char: string): string {
    // No sequence spans lines, so an unterminated one swallows only its line.
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

  /** OSC, DCS and similar (titles, links, data): until BEL or ESC \. */
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
