/**
 * Interactive, because only such a shell aborts the running command on SIGINT and keeps its variables. It reads our
 * lines from stdin; cells see neither that stdin nor the descriptor on which our functions report.
 */
export const shellCommand = ["bash", "--noprofile", "--norc", "--noediting", "-i"];

/** Above the descriptors that scripts usually open, and below any limit of open files. */
const REPORT_FD = 59;

/** Parsed together at the start, so that aliases and later definitions do not affect them. */
const functions = {
  // `-E`, so that the trap below also applies in functions; a cell may have unset it.
  __cellwright_begin: `builtin set -E; builtin printf 'begin %s\\0' "$1" >&${REPORT_FD}`,
  // Sets `$?` for the cell.
  __cellwright_status: 'builtin return "$1"',
  __cellwright_end: [
    'builtin local "status=$?"',
    "if [[ $__cellwright_errexit ]]; then __cellwright_errexit=; builtin set -e; fi",
    `builtin printf 'end %s %s\\0' "$1" "$status" >&${REPORT_FD}`,
  ].join("; "),
  __cellwright_stops: "[[ $- == *e* && $BASHPID == $$ ]]",
};

/**
 * Under `set -e` a failure would end the shell and lose its variables; instead it returns from each function, up to the
 * cell. Outside of the cell there is nothing to return from, so `set -e` is suspended.
 */
const onFailure =
  "if __cellwright_stops; then builtin return 2>/dev/null || { builtin set +e; __cellwright_errexit=1; }; fi";

/** Prepares a new shell, which then reports `ready`. All paths are as the shell sees them. */
export function setupLines(reportPipe: string): string {
  return [
    "PS1= PS2= __cellwright_errexit=",
    "unset MAILCHECK",
    // No job control, which needs a terminal; no `!` in strings; no history.
    "set +m +H +o history",
    `exec ${REPORT_FD}>|${quoted(reportPipe)}`,
    ...Object.entries(functions).map(([name, body]) => `${name}() { ${body}; }`),
    `readonly -f ${Object.keys(functions).join(" ")}`,
    `trap ${quoted(onFailure)} ERR`,
    `builtin printf 'ready %s\\0' "$BASH_VERSION" >&${REPORT_FD}`,
    "",
  ].join("\n");
}

export interface CellFiles {
  cell: string;
  variables?: string | undefined;
  stdout: string;
  stderr: string;
}

export interface CellNames {
  number: string;
  token: string;
  /** The exit code of the cell before it. */
  status: string;
}

/**
 * Runs a cell at the top level, not in a function, where `declare` would create locals. The first report says that the
 * whole line was read: a SIGINT before that could cut it in two. `token` is reported when the cell is over; a cell does
 * not know it, so it cannot forge that.
 */
export function cellLines(files: CellFiles, cell: CellNames): string {
  const around = `</dev/null >|${quoted(files.stdout)} 2>|${quoted(files.stderr)} ${REPORT_FD}>&-`;
  const then = cell.status === "0" ? "&&" : "||";
  return [
    ...(files.variables ? [`\\builtin source ${quoted(files.variables)} ${around}`] : []),
    `__cellwright_begin ${cell.number} && ` +
      `{ __cellwright_status ${cell.status} ${then} \\builtin source ${quoted(files.cell)} ${around}; }`,
    endLine(cell.token).trimEnd(),
    "",
  ].join("\n");
}

/**
 * The same as templates for `python/commands/bash_process.py`, which replaces the names in braces; those of files are
 * in single quotes.
 */
export const shellScript = {
  command: shellCommand,
  setup: setupLines("{reports}"),
  cellAfterSuccess: cellTemplate("0"),
  cellAfterFailure: cellTemplate("{status}"),
  end: endLine("{token}"),
};

function cellTemplate(status: string): string {
  const files = { cell: "{cell}", variables: "{variables}", stdout: "{stdout}", stderr: "{stderr}" };
  return cellLines(files, { number: "{number}", token: "{token}", status });
}

/** Requests a report after everything sent before. Any part of this line, cut by a SIGINT, is harmless. */
export function endLine(token: string): string {
  return `__cellwright_end ${token}\n`;
}

export type Report =
  | { type: "ready"; version: string }
  | { type: "begin"; cell: number }
  | { type: "end"; token: string; status: number };

/** Limit of an incomplete report; real ones are far shorter. */
const MAX_REPORT_CHARS = 1_000;

/** Parses reports. A cell that finds the descriptor can write anything to it: invalid data is dropped. */
export class ReportReader {
  #rest = "";

  *read(bytes: Uint8Array): Generator<Report> {
    const pieces = (this.#rest + Buffer.from(bytes).toString("latin1")).split("\0");
    this.#rest = (pieces.pop() ?? "").slice(-MAX_REPORT_CHARS);
    for (const piece of pieces) {
      const report = parseReport(piece);
      if (report) yield report;
    }
  }
}

function parseReport(text: string): Report | undefined {
  const [type, first = "", second = ""] = text.split(" ");
  if (type === "ready") return { type, version: first.slice(0, 40) };
  if (type === "begin") return { type, cell: Number(first) };
  if (type === "end" && /^\d{1,3}$/.test(second)) return { type, token: first, status: Number(second) };
  return undefined;
}

/** Quotes any text as one bash word. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
