import { homedir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { logLevels } from "./log.ts";
import { choice, choices, duration, flag, integer, list, type OptionType, text } from "./option-types.ts";

/**
 * Every setting, once. The flag (`--data-dir`), the variable (`CELLWRIGHT_DATA_DIR`), the help line, the docs row and
 * the type come from here. A flag beats the environment, the environment beats an --env-file, that beats the default.
 */
const table = {
  kernel: option({
    group: "Kernels",
    help: "Where sessions run. `auto` is the best that is set up here.",
    type: choice(["auto", "wasm"]),
    default: "auto",
  }),
  jail: option({
    group: "Kernels",
    help: "The wall of the operating system around kernels: bubblewrap where it works, required, or none.",
    type: choice(["auto", "bwrap", "none"]),
    default: "auto",
    trusted: true,
  }),
  memoryMb: option({
    group: "Kernels",
    help: "Memory that the code of one session may use.",
    type: integer(128, 4096, "MB"),
    default: 1024,
  }),
  diskMb: option({
    group: "Kernels",
    help: "Disk space that the files of one session may use.",
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

  packages: option({
    group: "Packages",
    help: "Packages that every new session has.",
    type: list("NAMES"),
    default: [],
    repeatable: true,
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
    type: integer(1, 10_000, "COUNT"),
    default: 32,
  }),
  dataDir: option({
    group: "Sessions",
    help: "Where sessions, their files and caches live.",
    type: text("DIR"),
    default: defaultDataDir(),
    shownDefault: "the data folder of the operating system",
  }),
  filesDir: option<string | undefined>({
    group: "Sessions",
    help: "The only folder import_file and export_file may touch. Over stdio: the working directory; over HTTP: none.",
    type: text("DIR"),
    default: undefined,
    trusted: true,
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

  host: option({
    group: "HTTP",
    help: "Address to listen on. Anything but loopback needs --auth-token or --insecure.",
    type: text("HOST"),
    default: "127.0.0.1",
  }),
  port: option({ group: "HTTP", help: "Port to listen on.", type: integer(0, 65_535, "PORT"), default: 8000 }),
  allowedHosts: option({
    group: "HTTP",
    help: "Names under which clients reach this server, if not loopback or --host (checked against the Host header).",
    type: list("HOSTS"),
    default: [],
    trusted: true,
  }),
  authToken: option({
    group: "HTTP",
    help: "A client must send this bearer token. With NAME=, its sessions belong to NAME. Repeatable.",
    type: list("[NAME=]TOKEN"),
    default: [],
    secret: true,
    repeatable: true,
  }),
  insecure: option({
    group: "HTTP",
    help: "Listen beyond loopback without a token.",
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
  envFile: option<string | undefined>({
    group: "Program",
    help: "A file of CELLWRIGHT_… lines to read settings from.",
    type: text("FILE"),
    default: undefined,
    trusted: true,
  }),
};

export type Options = { [Name in keyof typeof table]: (typeof table)[Name]["default"] };
export type OptionName = keyof Options;

interface OptionSpec<T> {
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
}

function option<T>(spec: OptionSpec<T>): OptionSpec<T> {
  return spec;
}

/** The table as rows, for help and docs. */
export const optionTable = Object.entries(table).map(([name, spec]) => {
  const shown = spec as OptionSpec<unknown>;
  return {
    name: name as OptionName,
    flag: `--${kebab(name)}`,
    env: `CELLWRIGHT_${kebab(name).replaceAll("-", "_").toUpperCase()}`,
    placeholder: shown.type.placeholder,
    default: shown.shownDefault ?? (shown.default === undefined ? "" : shown.type.show(shown.default)),
    help: shown.help,
    group: shown.group,
    secret: shown.secret === true,
    trusted: shown.trusted === true,
    repeatable: shown.repeatable === true,
  };
});

/** A setting or argument that cannot be used; the message says what was expected. */
export class OptionError extends Error {
  override name = "OptionError";
}

export function defaultOptions(): Options {
  return Object.fromEntries(Object.entries(table).map(([name, spec]) => [name, spec.default])) as Options;
}

/** Reads flags and environment. Words that are not flags come back as `words`, in order. */
export function parseOptions(
  args: string[],
  env: NodeJS.ProcessEnv,
  readFile: (path: string) => string,
): { options: Options; words: string[]; given: Set<OptionName>; extra: Record<string, string | boolean> } {
  const { flags, words, extra } = readFlags(args);
  const envFile = flags.envFile?.at(-1) ?? env.CELLWRIGHT_ENV_FILE;
  const fileValues = envFile ? parseEnvFile(readEnvFile(envFile, readFile)) : {};
  const options: Record<string, unknown> = defaultOptions();
  const given = new Set<OptionName>();
  for (const row of optionTable) {
    const spec = table[row.name] as OptionSpec<unknown>;
    const fromFile = fileValues[row.env];
    if (fromFile !== undefined && row.trusted) {
      throw new OptionError(
        `${row.env} cannot be set in an --env-file: it decides what code may touch. Use ${row.flag}.`,
      );
    }
    const source = flags[row.name]
      ? row.flag
      : env[row.env]
        ? row.env
        : fromFile
          ? `${row.env} in ${envFile}`
          : undefined;
    if (!source) continue;
    const value = flags[row.name]?.join(",") ?? env[row.env] ?? fromFile ?? "";
    try {
      options[row.name] = spec.type.parse(
        flags[row.name] && !spec.repeatable ? (flags[row.name]?.at(-1) ?? "") : value,
      );
    } catch (error) {
      const shown = row.secret ? "" : ` \`${value}\``;
      throw new OptionError(`${source}${shown}: ${(error as Error).message}`);
    }
    given.add(row.name);
  }
  return { options: options as Options, words, given, extra };
}

/** Flags that belong to a command, not to the settings. */
const commandFlags = {
  help: { type: "boolean", short: "h" },
  version: { type: "boolean", short: "v" },
  yes: { type: "boolean", short: "y" },
  code: { type: "string", short: "c" },
  name: { type: "string" },
} as const;

function readFlags(args: string[]) {
  const config: NonNullable<Parameters<typeof parseArgs>[0]>["options"] = { ...commandFlags };
  for (const row of optionTable) {
    config[row.flag.slice(2)] = { type: row.placeholder === "" ? "boolean" : "string", multiple: true };
  }
  let parsed: ReturnType<typeof parseArgs>;
  try {
    parsed = parseArgs({ args, options: config, allowPositionals: true, strict: true });
  } catch (error) {
    throw new OptionError(`${(error as Error).message.split(". ")[0]}. Run \`cellwright --help\` for the options.`);
  }
  const flags: Partial<Record<OptionName, string[]>> = {};
  for (const row of optionTable) {
    const values = parsed.values[row.flag.slice(2)];
    if (Array.isArray(values)) flags[row.name] = values.map(String);
  }
  const extra: Record<string, string | boolean> = {};
  for (const name of Object.keys(commandFlags)) {
    const value = parsed.values[name];
    if (typeof value === "string" || typeof value === "boolean") extra[name] = value;
  }
  return { flags, words: parsed.positionals, extra };
}

function readEnvFile(path: string, readFile: (path: string) => string): string {
  try {
    return readFile(path);
  } catch (error) {
    throw new OptionError(`--env-file \`${path}\` cannot be read: ${(error as Error).message}`);
  }
}

function parseEnvFile(content: string): Record<string, string> {
  const values: Record<string, string> = {};
  for (const line of content.split(/\r?\n/)) {
    const match = /^\s*(?:export\s+)?([A-Z][A-Z0-9_]*)\s*=\s*(.*?)\s*$/.exec(line);
    if (match?.[1]) values[match[1]] = (match[2] ?? "").replace(/^(["'])(.*)\1$/, "$2");
  }
  return values;
}

function defaultDataDir(): string {
  if (process.platform === "win32")
    return join(process.env.LOCALAPPDATA ?? join(homedir(), "AppData", "Local"), "cellwright");
  if (process.platform === "darwin") return join(homedir(), "Library", "Application Support", "cellwright");
  return join(process.env.XDG_DATA_HOME ?? join(homedir(), ".local", "share"), "cellwright");
}

function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
