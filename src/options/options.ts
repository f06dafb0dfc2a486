import { parseArgs } from "node:util";
import { type EngineSettings, engineDefaults } from "./engine-settings.ts";
import { defaultsOf, type OptionAliases, type OptionRow, type OptionTable, type OptionValues, rowsOf } from "./spec.ts";
import { type ToolsetName, table, toolsetNames } from "./table.ts";

export type { ToolsetName } from "./table.ts";

export type Options = OptionValues<typeof table> & EngineSettings;
export type OptionName = keyof Options;

/** The table as rows, for help and docs. */
export const optionTable: OptionRow[] = rowsOf(table);

/** An invalid option or argument; the message says what was expected. */
export class OptionError extends Error {
  override name = "OptionError";
}

export function defaultOptions(): Options {
  return { ...engineDefaults, ...defaultsOf(table) };
}

export interface ParsedOptions {
  options: Options;
  /** Values of a toolset's own options. */
  own: Record<string, unknown>;
  /** Positional arguments, in order. */
  words: string[];
  given: Set<string>;
  /** Flags that belong to a command. */
  extra: Record<string, string | boolean>;
}

/** How a toolset changes the options. */
export interface OptionsOfToolset {
  defaults?: Partial<Options>;
  /** Its own options. */
  table?: OptionTable;
  /** Its names for native options. */
  aliases?: OptionAliases;
}

/** The chosen toolset, if any: its defaults and environment are needed to parse the rest. */
export function findToolset(args: string[], env: NodeJS.ProcessEnv): ToolsetName | undefined {
  const at = args.findIndex((arg) => arg === "--toolset" || arg.startsWith("--toolset="));
  const given = at === -1 ? env.CELLWRIGHT_TOOLSET : args[at]?.includes("=") ? args[at]?.split("=")[1] : args[at + 1];
  return toolsetNames.find((name) => name === given);
}

/** Parses flags and environment. */
export function parseOptions(
  args: string[],
  env: NodeJS.ProcessEnv,
  readFile: (path: string) => string,
  { defaults = {}, table: ownTable = {}, aliases = {} }: OptionsOfToolset = {},
): ParsedOptions {
  const whole: OptionTable = { ...table, ...ownTable };
  const rows = rowsOf(whole, aliases);
  const { flags, words, extra } = readFlags(args, rows);
  const envFile = flags.envFile?.at(-1) ?? env.CELLWRIGHT_ENV_FILE;
  const fileValues = envFile ? parseEnvFile(readEnvFile(envFile, readFile)) : {};
  const values: Record<string, unknown> = { ...engineDefaults, ...defaultsOf(whole), ...defaults };
  const given = new Set<string>();
  for (const row of rows) {
    const fromFile = fileValues[row.env];
    if (fromFile !== undefined && row.trusted) {
      throw new OptionError(
        `${row.env} cannot be set in an --env-file, because it decides what code may access. Use ${row.flag}.`,
      );
    }
    const variable = [row.env, ...row.envAliases].find((name) => env[name]);
    const flag = flags[row.name];
    const source = flag ? row.flag : (variable ?? (fromFile ? `${row.env} in ${envFile}` : undefined));
    if (!source) continue;
    const value = flag?.join(",") ?? (variable === undefined ? fromFile : env[variable]) ?? "";
    try {
      values[row.name] = row.type.parse(flag && !row.repeatable ? (flag.at(-1) ?? "") : value);
    } catch (error) {
      const shown = row.secret ? "" : ` \`${value}\``;
      throw new OptionError(`${source}${shown}: ${(error as Error).message}`);
    }
    given.add(row.name);
  }
  const isOwn = ([name]: [string, unknown]) => name in ownTable;
  const own = Object.fromEntries(Object.entries(values).filter(isOwn));
  const options = Object.fromEntries(Object.entries(values).filter((entry) => !isOwn(entry))) as unknown as Options;
  return { options, own, words, given, extra };
}

/** Flags of commands, which are not options of the server. */
const commandFlags = {
  help: { type: "boolean", short: "h" },
  version: { type: "boolean", short: "v" },
  yes: { type: "boolean", short: "y" },
  code: { type: "string", short: "c" },
  ports: { type: "string" },
} as const;

function readFlags(args: string[], rows: OptionRow[]) {
  const config: NonNullable<Parameters<typeof parseArgs>[0]>["options"] = { ...commandFlags };
  for (const row of rows) {
    for (const flag of [row.flag, ...row.flagAliases]) {
      config[flag.slice(2)] = { type: row.placeholder === "" ? "boolean" : "string", multiple: true };
    }
  }
  /** `--allow-net` alone does not consume the next argument. */
  const withImpliedValue = (arg: string): string => {
    const implied = rows.find(({ flag }) => flag === arg)?.impliedValue;
    return implied === undefined ? arg : `${arg}=${implied}`;
  };
  let parsed: ReturnType<typeof parseArgs>;
  try {
    parsed = parseArgs({ args: args.map(withImpliedValue), options: config, allowPositionals: true, strict: true });
  } catch (error) {
    throw new OptionError(`${(error as Error).message.split(". ")[0]}. Run \`cellwright --help\` for the options.`);
  }
  const flags: Record<string, string[] | undefined> = {};
  for (const row of rows) {
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

function readEnvFile(path: string, readFile: (path: string) => string): string {
  try {
    return readFile(path);
  } catch (error) {
    throw new OptionError(`Cannot read --env-file \`${path}\`: ${(error as Error).message}`);
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
