import { parseArgs } from "node:util";
import { type OptionSpec, type ToolsetName, table, toolsetNames } from "./option-table.ts";

export type { ToolsetName } from "./option-table.ts";

export type Options = { [Name in keyof typeof table]: (typeof table)[Name]["default"] };
export type OptionName = keyof Options;

/** The table as rows, for help and docs. */
export const optionTable = Object.entries(table).map(([name, spec]) => {
  const shown = spec as OptionSpec<unknown>;
  return {
    name: name as OptionName,
    flag: `--${kebab(name)}`,
    env: `CELLWRIGHT_${kebab(name).replaceAll("-", "_").toUpperCase()}`,
    flagAliases: shown.aliases?.flags ?? [],
    envAliases: shown.aliases?.env ?? [],
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

export interface ParsedOptions {
  options: Options;
  /** What is no flag, in order. */
  words: string[];
  given: Set<OptionName>;
  /** Flags that belong to a command. */
  extra: Record<string, string | boolean>;
}

/** Which toolset is asked for, if any: its defaults and its environment are needed to read the rest. */
export function findToolset(args: string[], env: NodeJS.ProcessEnv): ToolsetName | undefined {
  const at = args.findIndex((arg) => arg === "--toolset" || arg.startsWith("--toolset="));
  const given = at === -1 ? env.CELLWRIGHT_TOOLSET : args[at]?.includes("=") ? args[at]?.split("=")[1] : args[at + 1];
  return toolsetNames.find((name) => name === given);
}

/** Reads flags and environment. Words that are not flags come back as `words`, in order. */
export function parseOptions(
  args: string[],
  env: NodeJS.ProcessEnv,
  readFile: (path: string) => string,
  defaults: Partial<Options> = {},
): ParsedOptions {
  const { flags, words, extra } = readFlags(args);
  const envFile = flags.envFile?.at(-1) ?? env.CELLWRIGHT_ENV_FILE;
  const fileValues = envFile ? parseEnvFile(readEnvFile(envFile, readFile)) : {};
  const options: Record<string, unknown> = { ...defaultOptions(), ...defaults };
  const given = new Set<OptionName>();
  for (const row of optionTable) {
    const spec = table[row.name] as OptionSpec<unknown>;
    const fromFile = fileValues[row.env];
    if (fromFile !== undefined && row.trusted) {
      throw new OptionError(
        `${row.env} cannot be set in an --env-file: it decides what code may touch. Use ${row.flag}.`,
      );
    }
    const variable = [row.env, ...row.envAliases].find((name) => env[name]);
    const source = flags[row.name] ? row.flag : (variable ?? (fromFile ? `${row.env} in ${envFile}` : undefined));
    if (!source) continue;
    const value = flags[row.name]?.join(",") ?? (variable === undefined ? fromFile : env[variable]) ?? "";
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
  if (options.disableNetworking) options.allowNet = [];
  if (options.verbose && !given.has("logLevel")) options.logLevel = "debug";
  return { options: options as Options, words, given, extra };
}

/** Flags that belong to a command, not to the settings. */
const commandFlags = {
  help: { type: "boolean", short: "h" },
  version: { type: "boolean", short: "v" },
  yes: { type: "boolean", short: "y" },
  code: { type: "string", short: "c" },
  name: { type: "string" },
  ports: { type: "string" },
} as const;

function readFlags(args: string[]) {
  const config: NonNullable<Parameters<typeof parseArgs>[0]>["options"] = { ...commandFlags };
  for (const row of optionTable) {
    for (const flag of [row.flag, ...row.flagAliases]) {
      config[flag.slice(2)] = { type: row.placeholder === "" ? "boolean" : "string", multiple: true };
    }
  }
  let parsed: ReturnType<typeof parseArgs>;
  try {
    parsed = parseArgs({ args: args.map(withImpliedValue), options: config, allowPositionals: true, strict: true });
  } catch (error) {
    throw new OptionError(`${(error as Error).message.split(". ")[0]}. Run \`cellwright --help\` for the options.`);
  }
  const flags: Partial<Record<OptionName, string[]>> = {};
  for (const row of optionTable) {
    const values = [row.flag, ...row.flagAliases].flatMap((flag) => parsed.values[flag.slice(2)] ?? []);
    if (values.length > 0) flags[row.name] = values.map(String);
  }
  const extra: Record<string, string | boolean> = {};
  for (const name of Object.keys(commandFlags)) {
    const value = parsed.values[name];
    if (typeof value === "string" || typeof value === "boolean") extra[name] = value;
  }
  return { flags, words: parsed.positionals, extra };
}

/** `--allow-net` alone takes no value from the next word. */
function withImpliedValue(arg: string): string {
  const row = optionTable.find(({ flag }) => flag === arg);
  const implied = row && (table[row.name] as OptionSpec<unknown>).impliedValue;
  return implied === undefined ? arg : `${arg}=${implied}`;
}

function readEnvFile(path: string, readFile: (path: string) => string): string {
  try {
    return readFile(path);
  } catch (error) {
    throw new OptionError(`--env-file \`${path}\` cannot be read: ${(error as Error).message}`);
  }
}

export function parseEnvFile(content: string): Record<string, string> {
  const values: Record<string, string> = {};
  for (const line of content.split(/\r?\n/)) {
    const match = /^\s*(?:export\s+)?([A-Z][A-Z0-9_]*)\s*=\s*(.*?)\s*$/.exec(line);
    if (match?.[1]) values[match[1]] = (match[2] ?? "").replace(/^(["'])(.*)\1$/, "$2");
  }
  return values;
}

function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
