import { CellwrightError } from "../errors.ts";
import type { Execution } from "../execution.ts";
import type { Workspace } from "../workspace/workspace.ts";

/** More than anybody types, and nothing that is worth running again. */
const MAX_BYTES = 64 * 1024 * 1024;

/**
 * The code of a session's cells that succeeded, as a text file that other programs read and write, too. Our own history
 * knows more, and where one cell ends and the next begins; the file counts where it says something else.
 */
export class Chronicle {
  readonly #workspace: Workspace;
  readonly #path: string;
  #cells: string[] | undefined;

  constructor(workspace: Workspace, path: string) {
    this.#workspace = workspace;
    this.#path = path;
  }

  /** The cells to run again. `known` are those that our own history has. */
  async read(known: string[]): Promise<string[]> {
    const text = await this.#text();
    if (text === undefined) return known;
    return text === textOf(known) ? known : splitCells(text);
  }

  /** Adds one. `known` are those before it that our own history has. */
  async add(code: string, known: () => Promise<string[]>): Promise<void> {
    this.#cells ??= await this.read(await known());
    this.#cells.push(code);
    await this.#workspace.write(this.#path, Buffer.from(textOf(this.#cells)));
  }

  async #text(): Promise<string | undefined> {
    try {
      const { bytes } = await this.#workspace.read(this.#path, { maxBytes: MAX_BYTES });
      return Buffer.from(bytes).toString();
    } catch (error) {
      if (error instanceof CellwrightError && error.code === "file_not_found") return undefined;
      throw error;
    }
  }
}

/** Whether a session's name can be that of a file anywhere. */
export function isFileName(name: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(name);
}

/** The code of Python cells that ended well. */
export function succeeded(cells: Pick<Execution, "code" | "language" | "status">[]): string[] {
  return cells.filter(({ language, status }) => language === "python" && status === "ok").map(({ code }) => code);
}

/** Each cell begins and ends with a line end. */
function textOf(cells: string[]): string {
  return cells.map((code) => `\n${code}\n`).join("");
}

/** Lines that carry on a statement although they are not indented. */
const goesOn = /^(?:\s|else\b|elif\b|except\b|finally\b|[)\]}])/;

/**
 * Cells as far as an unmarked text shows them: parts between empty lines that are statements of their own. A cell with
 * such lines in it becomes several, which does the same.
 */
export function splitCells(text: string): string[] {
  const cells: string[] = [];
  let cell: string[] = [];
  let quote: string | undefined;
  const end = () => {
    const code = cell.join("\n").trim();
    if (code !== "") cells.push(code);
    cell = [];
  };
  for (const line of text.split(/\r?\n/)) {
    const isAfterGap = cell.length > 0 && cell.at(-1)?.trim() === "";
    if (isAfterGap && quote === undefined && line.trim() !== "" && !goesOn.test(line)) end();
    cell.push(line);
    quote = quoteAfter(line, quote);
  }
  end();
  return cells;
}

/** The kind of triple quotes that are open at the end of a line. */
function quoteAfter(line: string, open: string | undefined): string | undefined {
  let quote = open;
  for (const [mark] of line.matchAll(/"""|'''/g)) {
    if (quote === undefined) quote = mark;
    else if (quote === mark) quote = undefined;
  }
  return quote;
}
