type StreamName = "stdout" | "stderr";

/** Colors and cursor movements, which are meaningless outside a terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const escapes = /\u001b\[[0-?]*[ -/]*[@-~]/g;

/** Merges two streams line by line, in the order of line ends. */
export class Lines {
  readonly #open = new Map<StreamName, string>();

  /** The lines completed by this chunk. */
  add(stream: StreamName, text: string): string[] {
    const lines = ((this.#open.get(stream) ?? "") + text).split("\n");
    const rest = lines.pop() ?? "";
    if (rest === "") this.#open.delete(stream);
    else this.#open.set(stream, rest);
    return lines.map(clean);
  }

  /** Incomplete lines. */
  rest(): [stream: StreamName, line: string][] {
    const rest = [...this.#open].map(([stream, line]): [StreamName, string] => [stream, clean(line)]);
    this.#open.clear();
    return rest;
  }
}

function clean(line: string): string {
  return line.replace(escapes, "");
}
