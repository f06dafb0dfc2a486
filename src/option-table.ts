import { homedir } from "node:os";
import { join } from "node:path";
import { logLevels } from "./log.ts";
import { choice, choices, decimal, duration, flag, integer, list, type OptionType, text } from "./option-types.ts";

/** The systems whose tools we can offer (src/tools/compat). */
export const toolsetNames = [
  "mcp-python-code-interpreter",
  "jupyter-interpreter-mcp",
  "jupyter-interpreter-mcp@0.4",
  "ipython-mcp",
  "code-interpreter-lb",
  "mcp-run-python",
] as const;
export type ToolsetName = (typeof toolsetNames)[number];

/**
 * Every setting, once. The flag (`--data-dir`), the variable (`CELLWRIGHT_DATA_DIR`), the help line, the docs row and
 * the type come from here. A flag beats the environment, the environment beats an --env-file, that beats the default.
 */
export const table = {
  kernel: option({
    group: "Kernels",
    help: "Where sessions run. `auto` is the best that is set up here.",
    type: choice(["auto", "wasm", "local", "jupyter", "pool"]),
    default: "auto",
  }),
  env: option<string | undefined>({
    group: "Kernels",
    help: "The Python environment of sessions that do not choose one: a name, or a path. Otherwise the managed one.",
    type: text("NAME"),
    default: undefined,
    trusted: true,
  }),
  envRoot: option({
    group: "Kernels",
    help: "Where environments are looked for by name.",
    type: text("DIR"),
    default: join(homedir(), "envs"),
    shownDefault: "~/envs",
    trusted: true,
  }),
  allowEnvPaths: option({
    group: "Kernels",
    help: "Let callers over HTTP name any environment by its path; it is started in the session's jail. Over stdio they may.",
    type: flag(),
    default: false,
    trusted: true,
  }),
  autoInstallIpykernel: option({
    group: "Kernels",
    help: "Install ipykernel into an environment that lacks it.",
    type: flag(),
    default: false,
    trusted: true,
  }),
  restore: option({
    group: "Kernels",
    help: "What to do for a session whose kernel is gone: nothing, or run its cells again, up to one that ends in another way than before; or all that succeeded.",
    type: choice(["none", "replay", "replay-all"]),
    default: "none",
  }),
  shellLines: option({
    group: "Kernels",
    help: "Run lines of a Python cell that are shell commands, such as `ls -la`, in a shell. Python wins where it can.",
    type: flag(),
    default: false,
  }),
  classic: option({
    group: "Kernels",
    help: "Run Python cells as IPython does on its own: its tracebacks without our hints, and magics without `%`.",
    type: flag(),
    default: false,
  }),
  jail: option({
    group: "Kernels",
    help: "OS sandbox around kernels: `auto` uses the best tier that works here, `namespaces` or `landlock` require that one, `none` runs code with all your rights.",
    type: choice(["auto", "namespaces", "landlock", "none"], { bwrap: "namespaces" }),
    default: "auto",
    trusted: true,
  }),
  memoryMb: option({
    group: "Kernels",
    help: "Memory that the code of one session may use.",
    type: integer(128, 4096, "MB"),
    default: 1024,
  }),
  cpus: option<number | undefined>({
    group: "Kernels",
    help: "Processors that the code of one session may use. Otherwise all.",
    type: decimal(0.1, 1024, "COUNT"),
    default: undefined,
  }),
  pids: option({
    group: "Kernels",
    help: "Processes and threads that the code of one session may have.",
    type: integer(16, 100_000, "COUNT"),
    default: 512,
  }),
  diskMb: option({
    group: "Kernels",
    help: "Disk space that the files of one session may use; its packages may take as much again, and so may its history with kept outputs.",
    type: integer(1, 1_000_000, "MB"),
    default: 1024,
  }),
  warm: option({
    group: "Kernels",
    help: "Kernels kept ready in advance, so that a new session starts at once.",
    type: integer(0, 64, "COUNT"),
    default: 1,
  }),
  startTimeout: option({
    group: "Kernels",
    help: "How long a kernel may take to start.",
    type: duration(),
    default: 120_000,
  }),

  jupyterUrl: option({
    group: "Elsewhere",
    help: "A Jupyter server to run sessions on, with --kernel jupyter. Repeatable.",
    type: list("URL"),
    default: ["http://localhost:8888"],
    repeatable: true,
    aliases: { flags: ["--jupyter-base-url"], env: ["JUPYTER_BASE_URL"] },
    trusted: true,
  }),
  jupyterToken: option<string | undefined>({
    group: "Elsewhere",
    help: "The token of the Jupyter servers.",
    type: text("TOKEN"),
    default: undefined,
    aliases: { env: ["JUPYTER_TOKEN"] },
    secret: true,
  }),
  jupyterTokenFile: option<string | undefined>({
    group: "Elsewhere",
    help: "A file with a token for each Jupyter server: lines of URL and TOKEN.",
    type: text("FILE"),
    default: undefined,
    trusted: true,
  }),
  jupyterCa: option<string | undefined>({
    group: "Elsewhere",
    help: "A file of certificates to trust, besides the usual ones, where a Jupyter server is reached over https.",
    type: text("FILE"),
    default: undefined,
    trusted: true,
  }),
  notebooksFolder: option({
    group: "Elsewhere",
    help: "Where a Jupyter server keeps the files and the history of sessions: a path there, from its user's home.",
    type: text("DIR"),
    default: "cellwright",
    aliases: { env: ["NOTEBOOKS_FOLDER"] },
  }),
  poolUrl: option({
    group: "Elsewhere",
    help: "A sandbox to run sessions on, with --kernel pool. Repeatable.",
    type: list("URL"),
    default: [18901, 18902, 18903, 18904].map((port) => `http://127.0.0.1:${port}`),
    repeatable: true,
    trusted: true,
  }),
  plainNames: option({
    group: "Elsewhere",
    help: "Send the session's own name to sandboxes, so that other clients can share it (default: a generated one). Names of tenants (`--auth-token NAME=…`) are sent as a hash of owner and name.",
    type: flag(),
    default: false,
  }),
  poolToken: option<string | undefined>({
    group: "Elsewhere",
    help: "The bearer token of the sandboxes. Otherwise, for those on this machine, the one that `cellwright pool` keeps in the data folder.",
    type: text("TOKEN"),
    default: undefined,
    secret: true,
  }),
  coolDown: option({
    group: "Elsewhere",
    help: "How long a server or sandbox that failed three times is left alone before it is tried again.",
    type: duration(),
    default: 30_000,
  }),

  workspace: option<string | undefined>({
    group: "Permissions",
    help: "A folder of yours that all sessions work in. Nothing in it is ever deleted by Cellwright.",
    type: text("DIR"),
    default: undefined,
    trusted: true,
  }),
  allowRead: option({
    group: "Permissions",
    help: "Files and folders that code may read, at their own paths.",
    type: list("PATHS"),
    default: [],
    repeatable: true,
    trusted: true,
  }),
  allowWrite: option({
    group: "Permissions",
    help: "Files and folders that code may read and change, at their own paths. A protected name of the workspace, such as `.git` or `.vscode`, makes that one writable, for file tools too.",
    type: list("PATHS"),
    default: [],
    repeatable: true,
    trusted: true,
  }),
  allowNet: option({
    group: "Permissions",
    help: "Let code reach the public internet (HTTP and HTTPS), or with =HOSTS only these (`example.org`, `*.example.org`, `example.org:8443`). `=host` shares the network of this machine, with all that listens on it.",
    type: list("HOSTS"),
    impliedValue: "*",
    default: [],
    repeatable: true,
    trusted: true,
  }),
  disableNetworking: option({
    group: "Permissions",
    help: "Let code use no network, whatever --allow-net says.",
    type: flag(),
    default: false,
    trusted: true,
  }),
  passEnv: option({
    group: "Permissions",
    help: "Environment variables of this program that code may see.",
    type: list("NAMES"),
    default: [],
    repeatable: true,
    trusted: true,
  }),

  packages: option({
    group: "Packages",
    help: "Packages that every new session has.",
    type: list("NAMES"),
    default: [],
    repeatable: true,
    aliases: { flags: ["--deps", "--dependencies"] },
  }),
  noInstall: option({
    group: "Packages",
    help: "Do not install what a cell imports and lacks.",
    type: flag(),
    default: false,
  }),
  packageDir: option<string | undefined>({
    group: "Packages",
    help: "A folder of wheels to take packages from first.",
    type: text("DIR"),
    default: undefined,
    trusted: true,
  }),
  pyodideBaseUrl: option<string | undefined>({
    group: "Packages",
    help: "Where Pyodide's own distribution is, if not at its usual place.",
    type: text("URL"),
    default: undefined,
    trusted: true,
  }),
  packageIndex: option<string | undefined>({
    group: "Packages",
    help: "The package index. Otherwise PIP_INDEX_URL, UV_DEFAULT_INDEX, pip's configuration, or the usual one.",
    type: text("URL"),
    default: undefined,
    trusted: true,
    secret: true,
  }),

  timeout: option({
    group: "Sessions",
    help: "How long a cell may run when the call does not say (`timeout_s`).",
    type: duration(),
    default: 600_000,
  }),
  sessionTtl: option({
    group: "Sessions",
    help: "A session that is not used for so long loses its kernel. 0: never.",
    type: duration(),
    default: 30 * 60_000,
    aliases: { env: ["SESSION_TTL"] },
  }),
  deleteExpired: option({
    group: "Sessions",
    help: "Delete a session that was not used for --session-ttl, with its files, instead of only ending its kernel.",
    type: flag(),
    default: false,
  }),
  sweepEvery: option<number | undefined>({
    group: "Sessions",
    help: "How often sessions that nobody uses are looked for. Otherwise four times in their lifetime, at least every 30 s.",
    type: duration(),
    default: undefined,
  }),
  sessionIds: option({
    group: "Sessions",
    help: "What ids of new sessions look like.",
    type: choice(["short", "uuid"]),
    default: "short",
  }),
  cellsFile: option({
    group: "Sessions",
    help: "Also keep the code of cells that succeeded in a text file: history.txt in the session's folder, or NAME.txt beside it on a Jupyter server.",
    type: choice(["none", "inside", "beside"]),
    default: "none",
  }),
  saveDisplays: option({
    group: "Sessions",
    help: "Save the pictures that cells show as files of their session, `inline_….png`.",
    type: flag(),
    default: false,
  }),
  keepDays: option({
    group: "Sessions",
    help: "How long history and files of an ended session are kept.",
    type: integer(0, 3650, "DAYS"),
    default: 7,
  }),
  maxSessions: option({
    group: "Sessions",
    help: "Sessions that may have a kernel at the same time.",
    type: integer(1, 1_000_000, "COUNT"),
    default: 32,
  }),
  dataDir: option({
    group: "Sessions",
    help: "Where sessions, their files and caches live.",
    type: text("DIR"),
    default: defaultDataDir(),
    shownDefault: "the data folder of the operating system",
  }),
  sessionsDir: option<string | undefined>({
    group: "Sessions",
    help: "Where sessions and their files live, if not in the data folder.",
    type: text("DIR"),
    default: undefined,
  }),
  filesDir: option<string | undefined>({
    group: "Sessions",
    help: "The only folder import_file and export_file may touch. Over stdio: the working directory; over HTTP: none.",
    type: text("DIR"),
    default: undefined,
    trusted: true,
  }),

  toolset: option<ToolsetName | undefined>({
    group: "Tools",
    help: "Offer the tools of another system instead of our own.",
    type: choice(toolsetNames),
    default: undefined,
  }),
  caps: option({
    group: "Tools",
    help: "Which groups of tools to offer.",
    type: choices(["core", "files", "inspect", "env"]),
    default: ["core", "files", "inspect", "env"],
  }),
  maxResultChars: option({
    group: "Tools",
    help: "Text of one reply. What does not fit is linked.",
    type: integer(1000, 500_000, "CHARS"),
    default: 24_000,
  }),
  structured: option({
    group: "Tools",
    help: "Add structuredContent to results, for programs. Some clients then hide the text from the model.",
    type: flag(),
    default: false,
  }),
  maxRequestMb: option({
    group: "Tools",
    help: "The largest request that is read.",
    type: integer(1, 512, "MB"),
    default: 64,
  }),

  returnMode: option({
    group: "Toolsets",
    help: "How mcp-run-python's tool says what it returns.",
    type: choice(["xml", "json"]),
    default: "xml",
  }),
  listPackages: option({
    group: "Toolsets",
    help: "Let mcp-run-python's tool name the packages of --packages in each reply, too.",
    type: flag(),
    default: false,
  }),

  host: option({
    group: "HTTP",
    help: "Address to listen on. Anything but loopback needs a token that you set, or --insecure.",
    type: text("HOST"),
    default: "127.0.0.1",
  }),
  port: option({ group: "HTTP", help: "Port to listen on.", type: integer(0, 65_535, "PORT"), default: 8000 }),
  stateless: option({
    group: "HTTP",
    help: "Answer each request of older clients on its own, without connections: they get no notifications then.",
    type: flag(),
    default: false,
  }),
  allowedHosts: option({
    group: "HTTP",
    help: "Names under which clients reach this server, if not loopback or --host (checked against the Host header).",
    type: list("HOSTS"),
    default: [],
    trusted: true,
  }),
  authToken: option({
    group: "HTTP",
    help: "A client must send this bearer token of at least 16 characters. With NAME=, its sessions belong to NAME. Otherwise one that is made once and kept in the data folder. Set the variable or --auth-token-file: a flag can be seen by all users of the machine. Repeatable.",
    type: list("[NAME=]TOKEN"),
    default: [],
    secret: true,
    repeatable: true,
  }),
  authTokenFile: option<string | undefined>({
    group: "HTTP",
    help: "A file of such tokens, one [NAME=]TOKEN in each line.",
    type: text("FILE"),
    default: undefined,
    trusted: true,
  }),
  insecure: option({
    group: "HTTP",
    help: "Want no token where none is set, also beyond loopback. With --kernel pool: use sandboxes on this machine whoever runs them.",
    type: flag(),
    default: false,
    trusted: true,
  }),

  jupyterRoot: option({
    group: "Toolsets",
    help: "The folder that a Jupyter server serves; jupyter-interpreter-mcp@0.4 names files from there.",
    type: text("DIR"),
    default: "/home/jovyan",
    aliases: { env: ["JUPYTER_ROOT"] },
  }),
  restoreSessionsOnStartup: option({
    group: "Toolsets",
    help: "Start the kernels of earlier sessions at once, and not when they are first used.",
    type: flag(),
    default: false,
    aliases: { env: ["RESTORE_SESSIONS_ON_STARTUP"] },
  }),
  allowedDir: option({
    group: "Toolsets",
    help: "A folder that upload_file_path may read. Otherwise the working directory; over HTTP none. Repeatable.",
    type: list("DIR"),
    default: [],
    repeatable: true,
    trusted: true,
  }),
  allowAll: option({
    group: "Toolsets",
    help: "Let upload_file_path read files anywhere.",
    type: flag(),
    default: false,
    trusted: true,
  }),

  logLevel: option({
    group: "Program",
    help: "What is logged on stderr.",
    type: choice(logLevels),
    default: "warn",
  }),
  verbose: option({
    group: "Program",
    help: "The same as --log-level debug.",
    type: flag(),
    default: false,
  }),
  envFile: option<string | undefined>({
    group: "Program",
    help: "A file of CELLWRIGHT_… lines to read settings from.",
    type: text("FILE"),
    default: undefined,
    trusted: true,
  }),
};

export interface OptionSpec<T> {
  group: string;
  help: string;
  type: OptionType<T>;
  default: NoInfer<T>;
  /** Said in the docs instead of a default that differs between machines. */
  shownDefault?: string;
  /** Decides what code may touch: never taken from an --env-file, which may lie in a folder that others write. */
  trusted?: boolean;
  /** Never printed. */
  secret?: boolean;
  repeatable?: boolean;
  /** What other programs call it. Our own names come first. */
  aliases?: { flags?: string[]; env?: string[] };
  /** The value that the bare flag stands for; another is given with `=`. */
  impliedValue?: string;
}

function option<T>(spec: OptionSpec<T>): OptionSpec<T> {
  return spec;
}

function defaultDataDir(): string {
  if (process.platform === "win32")
    return join(process.env.LOCALAPPDATA ?? join(homedir(), "AppData", "Local"), "cellwright");
  if (process.platform === "darwin") return join(homedir(), "Library", "Application Support", "cellwright");
  return join(process.env.XDG_DATA_HOME ?? join(homedir(), ".local", "share"), "cellwright");
}
