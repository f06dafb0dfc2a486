import type { Guest, GuestSession } from "../../engine/guest.ts";
import { hasCode } from "../../errors.ts";
import type { Execution } from "../../execution.ts";
import type { Workspace } from "../../workspace/workspace.ts";

/** Larger files are ignored: no real history is this long. */
const MAX_BYTES = 64 * 1024 * 1024;

/** Location of the file with a session's cells. */
export interface CellsFilePlace {
  workspace: Workspace;
  path: string;
}

/**
 * Keeps the code of each session's successful cells in a text file that other programs read and write, too. The native
 * history knows more, such as cell boundaries; where the two differ, the file wins.
 */
export function cellsFileGuest(
  placeOf: (session: GuestSession) => CellsFilePlace | undefined,
): Pick<Guest, "cellSaved" | "cellsToReplay"> {
  const files = new WeakMap<GuestSession, CellsFile | undefined>();
  const fileOf = (session: GuestSession): CellsFile | undefined => {
    if (!files.has(session)) {
      const place = placeOf(session);
      files.set(session, place && new CellsFile(place));
    }
    return files.get(session);
  };
  return {
    async cellSaved(run, session) {
      if (succeeded([run]).length === 0) return;
      const before = async () => succeeded((await session.cells()).filter(({ id }) => id !== run.id));
      await fileOf(session)?.add(run.code, before);
    },
    cellsToReplay: async (known, session) => fileOf(session)?.read(known) ?? known,
  };
}

export class CellsFile {
  readonly #place: CellsFilePlace;
  #cells: string[] | undefined;

  constructor(place: CellsFilePlace) {
    this.#place = place;
  }

  /** The cells to replay. `known` are those of the native history. */
  async read(known: string[]): Promise<string[]> {
    const text = await this.#text();
    if (text === undefined) return known;
    return text === textOf(known) ? known : splitCells(text);
  }

  /** Adds one. `known` are those before it in the native history. */
  async add(code: string, known: () => Promise<string[]>): Promise<void> {
    this.#cells ??= await this.read(await known());
    this.#cells.push(code);
    const { workspace, path } = this.#place;
    await workspace.write(path, Buffer.from(textOf(this.#cells)));
  }

  async #text(): Promise<string | undefined> {
    const { workspace, path } = this.#place;
    try {
      const { bytes } = await workspace.read(path, { maxBytes: MAX_BYTES });
      return Buffer.from(bytes).toString();
    } catch (error) {
      if (hasCode(error, "file_not_found")) return undefined;
      throw error;
    }
  }
}

/** True if a session's name is a valid file name on all platforms. */
export function isFileName(name: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(name);
}

/** The code of successful Python cells. */
export function succeeded(cells: Pick<Execution, "code" | "language" | "status">[]): string[] {
  return cells.filter(({ language, status }) => language === "python" && status === "ok").map(({ code }) => code);
}

/** Each cell begins and ends with a newline. */
function textOf(cells: string[]): string {
  return cells.map((code) => `\n${code}\n`).join("");
}

/** Lines that continue a statement, although some are not indented. */
const goesOn = /^(?:\s|else\b|elif\b|except\b|finally\b|[)\]}])/;

/**
 * Guesses cell boundaries: blocks of complete statements between empty lines. A cell with empty lines becomes several,
 * which has the same effect.
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

/** The triple quotes that are still open at the end of a line. */
function quoteAfter(line: string, open: string | undefined): string | undefined {
  let quote = open;
  for (const [mark] of line.matchAll(/"""|'''/g)) {
    if (quote === undefined) quote = mark;
    else if (quote === mark) quote = undefined;
  }
  return quote;
}
