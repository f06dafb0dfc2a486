type StreamName = "stdout" | "stderr";

/** Colours and cursor movements, which mean nothing outside a terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const escapes = /\u001b\[[0-?]*[ -/]*[@-~]/g;

/** Two streams as lines, in the order in which these were finished. */
export class Lines {
  readonly #open = new Map<StreamName, string>();

  /** Those that end with this piece of text. */
  add(stream: StreamName, text: string): string[] {
    const lines = ((this.#open.get(stream) ?? "") + text).split("\n");
    const rest = lines.pop() ?? "";
    if (rest === "") this.#open.delete(stream);
    else this.#open.set(stream, rest);
    return lines.map(clean);
  }

  /** What nobody has finished. */
  rest(): [stream: StreamName, line: string][] {
    const rest = [...this.#open].map(([stream, line]): [StreamName, string] => [stream, clean(line)]);
    this.#open.clear();
    return rest;
  }
}

function clean(line: string): string {
  return line.replace(escapes, "");
}
