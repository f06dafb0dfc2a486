import type { OptionType } from "./types.ts";

export interface OptionSpec<T> {
  group: string;
  help: string;
  type: OptionType<T>;
  default: NoInfer<T>;
  /** Shown in the docs instead of a default that depends on the machine. */
  shownDefault?: string;
  /** Decides what code may access: never read from an --env-file, which may be in a folder that others can write. */
  trusted?: boolean;
  /** Never printed. */
  secret?: boolean;
  repeatable?: boolean;
  /** Additional variables, used if the native one is not set. */
  aliases?: { env: string[] };
  /** The value of the bare flag; another is given with `=`. */
  impliedValue?: string;
}

export function option<T>(spec: OptionSpec<T>): OptionSpec<T> {
  return spec;
}

/** An option without a default. */
export function optional<T>(spec: Omit<OptionSpec<T | undefined>, "default">): OptionSpec<T | undefined> {
  return { ...spec, default: undefined };
}

/** Options by name. */
// biome-ignore lint/suspicious/noExplicitAny: a table holds settings of all types; `OptionValues` has each one's own.
export type OptionTable = Record<string, OptionSpec<any>>;
export type OptionValues<Table extends OptionTable> = { [Name in keyof Table]: Table[Name]["default"] };

/** An option with its names, and with the texts that help and docs show. */
// biome-ignore lint/suspicious/noExplicitAny: as above.
export interface OptionRow extends Omit<OptionSpec<any>, "default" | "shownDefault" | "aliases"> {
  name: string;
  flag: string;
  env: string;
  flagAliases: string[];
  envAliases: string[];
  placeholder: string;
  default: string;
}

/** Additional flags and variables of an option. */
export type OptionAliases = Record<string, { flags?: string[]; env?: string[] }>;

export function rowsOf(table: OptionTable, aliases: OptionAliases = {}): OptionRow[] {
  return Object.entries(table).map(([name, { shownDefault, aliases: own, ...spec }]) => ({
    ...spec,
    name,
    flag: `--${kebab(name)}`,
    env: `CELLWRIGHT_${kebab(name).replaceAll("-", "_").toUpperCase()}`,
    flagAliases: aliases[name]?.flags ?? [],
    envAliases: [...(own?.env ?? []), ...(aliases[name]?.env ?? [])],
    placeholder: spec.type.placeholder,
    default: shownDefault ?? (spec.default === undefined ? "" : spec.type.show(spec.default)),
  }));
}

export function defaultsOf<Table extends OptionTable>(table: Table): OptionValues<Table> {
  return Object.fromEntries(Object.entries(table).map(([name, spec]) => [name, spec.default])) as OptionValues<Table>;
}

function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
