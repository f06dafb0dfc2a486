/** Every error code, once. `docs/errors.md` is generated from this table. */
const codes = {
  invalid_input: { family: "caller", retry: false, http: 400, hint: "Correct the named arguments and call again." },
  session_not_found: {
    family: "caller",
    retry: false,
    http: 404,
    hint: "Leave out session_id to start a new session, or call list_sessions.",
  },
  session_in_use: {
    family: "caller",
    retry: true,
    http: 409,
    hint: "Another Cellwright process has this session open. Use it there, or leave out session_id for a new one.",
  },
  session_limit: { family: "caller", retry: false, http: 429, hint: "Close a session with close_session first." },
  session_closed: {
    family: "caller",
    retry: false,
    http: 409,
    hint: "Leave out session_id to start a new session; the old one's files can still be read.",
  },
  kernel_not_found: { family: "caller", retry: false, http: 404, hint: "Leave out env to use the default kernel." },
  kernel_busy: {
    family: "caller",
    retry: true,
    http: 409,
    hint: "Call wait until the cell ends, or interrupt it, then try again.",
  },
  execution_not_found: {
    family: "caller",
    retry: false,
    http: 404,
    hint: "Leave out execution_id for the session's newest cell.",
  },
  variable_not_found: { family: "caller", retry: false, http: 404, hint: "Call list_variables to see all variables." },
  file_not_found: { family: "caller", retry: false, http: 404, hint: "Call list_files to see all files." },
  path_outside_session: {
    family: "caller",
    retry: false,
    http: 403,
    hint: "Use a path relative to the session's workspace, without `..`, that leads to a regular file.",
  },
  path_protected: {
    family: "caller",
    retry: false,
    http: 403,
    hint: "Choose another path: programs outside the sandbox run this file or read it as configuration.",
  },
  host_path_refused: {
    family: "caller",
    retry: false,
    http: 403,
    hint: "Only regular files below --files-dir can be imported or exported, except files that usually hold secrets.",
  },
  edit_failed: {
    family: "caller",
    retry: false,
    http: 409,
    hint: "Read the file again and copy old_text from it exactly.",
  },
  too_large: {
    family: "caller",
    retry: false,
    http: 413,
    hint: "Process the data inside a cell, or in smaller parts.",
  },
  not_supported: { family: "caller", retry: false, http: 501, hint: "This kernel does not support it." },
  storage_full: {
    family: "environment",
    retry: true,
    http: 507,
    hint: "Free space on the disk that holds --data-dir. Nothing was run.",
  },
  package_error: {
    family: "environment",
    retry: false,
    http: 502,
    hint: "Use another package that supports WebAssembly, or the standard library.",
  },
  env_error: {
    family: "environment",
    retry: false,
    http: 502,
    hint: "Call list_environments to see the environments, and what each of them lacks.",
  },
  kernel_start_failed: {
    family: "environment",
    retry: false,
    http: 502,
    hint: "Run `cellwright doctor` to see what is missing.",
  },
  kernel_start_timeout: {
    family: "environment",
    retry: true,
    http: 504,
    hint: "The machine may be busy: try again, or raise --start-timeout.",
  },
  server_unreachable: {
    family: "environment",
    retry: true,
    http: 502,
    hint: "Check that this server is running and reachable from here, then try again.",
  },
  server_refused: {
    family: "environment",
    retry: false,
    http: 502,
    hint: "Check --jupyter-url and --jupyter-token.",
  },
  kernel_died: {
    family: "environment",
    retry: true,
    http: 502,
    hint: "Its variables are lost. Run a cell to get a fresh kernel.",
  },
  shutting_down: {
    family: "environment",
    retry: true,
    http: 503,
    hint: "Nothing was run. Try again after the restart.",
  },
  internal: {
    family: "bug",
    retry: false,
    http: 500,
    hint: "This is a bug in Cellwright. Its log on stderr has the details.",
  },
} as const satisfies Record<string, ErrorEntry>;

interface ErrorEntry {
  family: "caller" | "environment" | "bug";
  /** The same call may succeed later, unchanged. */
  retry: boolean;
  /** The status on plain HTTP routes; over MCP an error is a tool result. */
  http: number;
  /** What to do next, unless the thrower gives a more specific hint. */
  hint: string;
}

export type ErrorCode = keyof typeof codes;
export const errorCodes: Readonly<Record<ErrorCode, ErrorEntry>> = codes;

/** A failure of the request or of the environment, with a code for programs and a hint for the caller. */
export class CellwrightError extends Error {
  override name = "CellwrightError";
  readonly code: ErrorCode;
  readonly hint: string;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; hint?: string } = {}) {
    super(message, { cause: options.cause });
    this.code = code;
    this.hint = options.hint ?? codes[code].hint;
  }
}

export function hasCode(error: unknown, ...codes: ErrorCode[]): error is CellwrightError {
  return error instanceof CellwrightError && codes.includes(error.code);
}
