/**
 * Interactive, because only such a shell drops the running command at SIGINT and keeps its variables. It reads our lines
 * from stdin; cells never see that stdin, nor the descriptor on which our functions report.
 */
export const shellCommand = ["bash", "--noprofile", "--norc", "--noediting", "-i"];

/** Out of the way of those that scripts open themselves, and below any limit of open files. */
const REPORT_FD = 59;

/** All of them are parsed at once, so that aliases and later definitions change nothing in them. */
const functions = {
  // `-E`, for the trap below to be heard in functions; a cell may have taken it away.
  __cellwright_begin: `builtin set -E; builtin printf 'begin %s\\0' "$1" >&${REPORT_FD}`,
  // What `$?` is when the cell begins.
  __cellwright_status: 'builtin return "$1"',
  __cellwright_end: [
    'builtin local "status=$?"',
    "if [[ $__cellwright_errexit ]]; then __cellwright_errexit=; builtin set -e; fi",
    `builtin printf 'end %s %s\\0' "$1" "$status" >&${REPORT_FD}`,
  ].join("; "),
  __cellwright_stops: "[[ $- == *e* && $BASHPID == $$ ]]",
};

/**
 * Under `set -e` a failure would end the shell with all its variables; this way it ends what the shell is in, function
 * by function, up to the cell. Outside of the cell there is nothing to return from, and `set -e` is put off instead.
 */
const onFailure =
  "if __cellwright_stops; then builtin return 2>/dev/null || { builtin set +e; __cellwright_errexit=1; }; fi";

/** Makes a new shell ours. It reports `ready` when it is. All paths are as the shell sees them. */
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

/**
 * Runs a cell. At the top level and not in a function, where `declare` would make locals. The first report says that
 * the whole line has been read: a SIGINT before that could cut it in two. `token` comes back when the cell is over,
 * and no sooner: whoever does not know it cannot say so.
 */
export function cellLines(files: CellFiles, cell: { number: number; token: string; status: number }): string {
  const around = `</dev/null >|${quoted(files.stdout)} 2>|${quoted(files.stderr)} ${REPORT_FD}>&-`;
  const then = cell.status === 0 ? "&&" : "||";
  return [
    ...(files.variables ? [`\\builtin source ${quoted(files.variables)} ${around}`] : []),
    `__cellwright_begin ${cell.number} && ` +
      `{ __cellwright_status ${cell.status} ${then} \\builtin source ${quoted(files.cell)} ${around}; }`,
    endLine(cell.token).trimEnd(),
    "",
  ].join("\n");
}

/** Asks for a report once all that was asked before is done. Any part of this line, cut by a SIGINT, is harmless. */
export function endLine(token: string): string {
  return `__cellwright_end ${token}\n`;
}

export type Report =
  | { type: "ready"; version: string }
  | { type: "begin"; cell: number }
  | { type: "end"; token: string; status: number };

/** Longest unfinished report that is kept; ours are far shorter. */
const MAX_REPORT_CHARS = 1_000;

/** Bytes into reports. A cell that finds the descriptor can write anything to it: what is not a report is dropped. */
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

/** Text as one word of bash, whatever is in it. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
