import { homedir } from "node:os";
import { join } from "node:path";
import { logLevels } from "../log.ts";
import { option, optional } from "./spec.ts";
import { choice, choices, decimal, duration, flag, integer, list, text } from "./types.ts";

/** Other systems whose tools can be offered; each is a folder of src/toolsets, with its own options. */
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
 * Every native option, once. The flag (`--data-dir`), the variable (`CELLWRIGHT_DATA_DIR`), the help line, the docs row and
 * the type come from here. A flag beats the environment, the environment beats an --env-file, that beats the default.
 */
export const table = {
  kernel: option({
    group: "Kernels",
    help: "Where sessions run. `auto`: the managed Python environment if it was created and a sandbox works here, else WASM.",
    type: choice(["auto", "wasm", "local", "jupyter", "pool"]),
    default: "auto",
  }),
  env: optional({
    group: "Kernels",
    help: "Default Python environment: a name or a path (default: the managed one).",
    type: text("NAME"),
    trusted: true,
  }),
  envRoot: option({
    group: "Kernels",
    help: "Folder of Python environments that can be chosen by name.",
    type: text("DIR"),
    default: join(homedir(), "envs"),
    shownDefault: "~/envs",
    trusted: true,
  }),
  allowEnvPaths: option({
    group: "Kernels",
    help: "Let HTTP clients choose an environment by path; it is started inside the session's sandbox. Stdio clients always can.",
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
    help: "How to rebuild a lost kernel. `replay`: re-run the history, stop at the first different outcome. `replay-all`: re-run every cell that succeeded.",
    type: choice(["none", "replay", "replay-all"]),
    default: "none",
  }),
  jail: option({
    group: "Kernels",
    help: "OS sandbox: `auto` uses the best tier that works here, `namespaces` and `landlock` require that one, `none` runs code with your full rights.",
    type: choice(["auto", "namespaces", "landlock", "none"], { bwrap: "namespaces" }),
    default: "auto",
    trusted: true,
  }),
  memoryMb: option({
    group: "Kernels",
    help: "Memory limit of one session.",
    type: integer(128, 4096, "MB"),
    default: 1024,
  }),
  cpus: optional({
    group: "Kernels",
    help: "CPU limit of one session (default: all CPUs).",
    type: decimal(0.1, 1024, "COUNT"),
  }),
  pids: option({
    group: "Kernels",
    help: "Limit of processes and threads of one session.",
    type: integer(16, 100_000, "COUNT"),
    default: 512,
  }),
  diskMb: option({
    group: "Kernels",
    help: "Disk limit of one session's files. The same limit applies separately to its packages, and to its history and outputs.",
    type: integer(1, 1_000_000, "MB"),
    default: 1024,
  }),
  warm: option({
    group: "Kernels",
    help: "Number of kernels started in advance, so that a new session starts at once.",
    type: integer(0, 64, "COUNT"),
    default: 1,
  }),
  startTimeout: option({
    group: "Kernels",
    help: "Time limit for starting a kernel.",
    type: duration(),
    default: 120_000,
  }),

  jupyterUrl: option({
    group: "Remote kernels",
    help: "Jupyter server for --kernel jupyter. Repeatable.",
    type: list("URL"),
    default: ["http://localhost:8888"],
    repeatable: true,
    trusted: true,
  }),
  jupyterToken: optional({
    group: "Remote kernels",
    help: "Token of the Jupyter servers, or @FILE with one `URL TOKEN` line per server.",
    type: text("TOKEN|@FILE"),
    aliases: { env: ["JUPYTER_TOKEN"] },
    secret: true,
  }),
  poolUrl: option({
    group: "Remote kernels",
    help: "Sandbox for --kernel pool. Repeatable.",
    type: list("URL"),
    default: [18901, 18902, 18903, 18904].map((port) => `http://127.0.0.1:${port}`),
    repeatable: true,
    trusted: true,
  }),
  poolToken: optional({
    group: "Remote kernels",
    help: "Bearer token of the sandboxes (default for sandboxes on this machine: the one that `cellwright pool` keeps in the data folder).",
    type: text("TOKEN"),
    secret: true,
  }),
  coolDown: option({
    group: "Remote kernels",
    help: "How long to avoid a server or sandbox after three consecutive failures.",
    type: duration(),
    default: 30_000,
  }),

  workspace: optional({
    group: "Permissions",
    help: "One of your folders as the workspace of all sessions. Cellwright never deletes anything in it. Without an OS sandbox, WASM needs a folder without symbolic links.",
    type: text("DIR"),
    trusted: true,
  }),
  allowRead: option({
    group: "Permissions",
    help: "Files and folders that code may read.",
    type: list("PATHS"),
    default: [],
    repeatable: true,
    trusted: true,
  }),
  allowWrite: option({
    group: "Permissions",
    help: "Files and folders that code may read and write. A protected name of the workspace, such as `.git` or `.vscode`, makes that one writable, for file tools too.",
    type: list("PATHS"),
    default: [],
    repeatable: true,
    trusted: true,
  }),
  allowNet: option({
    group: "Permissions",
    help: "Let code reach the public internet (HTTP and HTTPS), or only these hosts (`example.org`, `*.example.org`, `example.org:8443`). `=host` shares this machine's network.",
    type: list("HOSTS"),
    impliedValue: "*",
    default: [],
    repeatable: true,
    trusted: true,
  }),
  passEnv: option({
    group: "Permissions",
    help: "Environment variables to pass to code.",
    type: list("NAMES"),
    default: [],
    repeatable: true,
    trusted: true,
  }),

  packages: option({
    group: "Packages",
    help: "Packages to install in every new session.",
    type: list("NAMES"),
    default: [],
    repeatable: true,
  }),
  noInstall: option({
    group: "Packages",
    help: "Do not install missing imports automatically (WASM).",
    type: flag(),
    default: false,
  }),
  packageDir: optional({
    group: "Packages",
    help: "Folder of wheels, searched before the package index.",
    type: text("DIR"),
    trusted: true,
  }),
  pyodideBaseUrl: optional({
    group: "Packages",
    help: "Base URL of Pyodide's distribution (default: its CDN).",
    type: text("URL"),
    trusted: true,
  }),
  packageIndex: optional({
    group: "Packages",
    help: "Package index (default: PIP_INDEX_URL, UV_DEFAULT_INDEX, or pip's configuration).",
    type: text("URL"),
    trusted: true,
    secret: true,
  }),

  timeout: option({
    group: "Sessions",
    help: "Default time limit of a cell; a call can set `timeout_s`.",
    type: duration(),
    default: 600_000,
  }),
  sessionTtl: option({
    group: "Sessions",
    help: "End the kernel of a session that is idle for this long. 0: never.",
    type: duration(),
    default: 30 * 60_000,
  }),
  keepDays: option({
    group: "Sessions",
    help: "How long to keep a session's history and files after its last use.",
    type: integer(0, 3650, "DAYS"),
    default: 7,
  }),
  maxSessions: option({
    group: "Sessions",
    help: "Limit of sessions with a running kernel.",
    type: integer(1, 1_000_000, "COUNT"),
    default: 32,
  }),
  dataDir: option({
    group: "Sessions",
    help: "Folder for sessions, their files and caches.",
    type: text("DIR"),
    default: defaultDataDir(),
    shownDefault: "the data folder of the operating system",
  }),
  filesDir: optional({
    group: "Sessions",
    help: "The only folder that import_file and export_file can access (default: over stdio the working directory, over HTTP none).",
    type: text("DIR"),
    trusted: true,
  }),

  toolset: optional({
    group: "Tools",
    help: "Offer the tools of another system instead; `--toolset NAME --help` shows its options.",
    type: choice(toolsetNames),
  }),
  caps: option({
    group: "Tools",
    help: "Groups of tools to offer.",
    type: choices(["core", "files", "inspect", "env"]),
    default: ["core", "files", "inspect", "env"],
  }),
  maxResultChars: option({
    group: "Tools",
    help: "Text limit of one reply; the rest is linked.",
    type: integer(1000, 500_000, "CHARS"),
    default: 24_000,
  }),
  structured: option({
    group: "Tools",
    help: "Add structuredContent to results, for programs. Some clients then hide the text from the model.",
    type: flag(),
    default: false,
  }),

  host: option({
    group: "HTTP",
    help: "Address to listen on. Anything but loopback requires a token that you set, or --insecure.",
    type: text("HOST"),
    default: "127.0.0.1",
  }),
  port: option({ group: "HTTP", help: "Port to listen on.", type: integer(0, 65_535, "PORT"), default: 8000 }),
  allowedHosts: option({
    group: "HTTP",
    help: "Additional host names for the Host header check (loopback and --host are always allowed).",
    type: list("HOSTS"),
    default: [],
    trusted: true,
  }),
  authToken: option({
    group: "HTTP",
    help: "Bearer token that clients must send, at least 16 characters; with NAME=, its sessions belong to that tenant (default: generated once and kept in the data folder). Or @FILE with one per line: other users of the machine can see flags. Repeatable.",
    type: list("[NAME=]TOKEN|@FILE"),
    default: [],
    secret: true,
    repeatable: true,
  }),
  insecure: option({
    group: "HTTP",
    help: "Require no token unless one is set, even beyond loopback. With --kernel pool: use sandboxes on this machine even if another user runs them.",
    type: flag(),
    default: false,
    trusted: true,
  }),

  logLevel: option({
    group: "Program",
    help: "Log level (stderr).",
    type: choice(logLevels),
    default: "warn",
  }),
  envFile: optional({
    group: "Program",
    help: "File of CELLWRIGHT_… lines with settings.",
    type: text("FILE"),
    trusted: true,
  }),
};

function defaultDataDir(): string {
  if (process.platform === "win32")
    return join(process.env.LOCALAPPDATA ?? join(homedir(), "AppData", "Local"), "cellwright");
  if (process.platform === "darwin") return join(homedir(), "Library", "Application Support", "cellwright");
  return join(process.env.XDG_DATA_HOME ?? join(homedir(), ".local", "share"), "cellwright");
}
