/** Error message and exit status of a program that refuses to start. */
export interface Refusal {
  message: string;
  exitCode: number;
}

/** The command line of a Python program, parsed like the standard library's `argparse`. */
export interface PythonCommandLine {
  program: string;
  usage: string;
  /** Each with all its names. */
  options: PythonOption[];
  /** The choices of its positional argument. Absent: it has none. */
  mode?: { name: string; choices: string[] };
}

interface PythonOption {
  names: string[];
  /** The type of its value. Absent: it takes none. */
  value?: "text" | "int" | "float";
  /** Ends parsing at once, like `--help`. */
  answers?: true;
}

/** What is also accepted: native options, with whether they take a value, and native commands. */
export interface Additions {
  options: Map<string, boolean>;
  words: string[];
}

const numbers = {
  int: /^\s*[+-]?\d+\s*$/,
  // Or a native duration.
  float: /^\s*(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?(?:inf|nan)|\d+(?:\.\d+)?\s*(?:ms|s|m|h|d))\s*$/i,
};

/** The arguments with their options expanded, or the program's error message. */
export function readAsPython(line: PythonCommandLine, args: string[], native: Additions): string[] | Refusal {
  const reading = new Reading(line, args, native);
  try {
    return reading.all();
  } catch (error) {
    if (error instanceof ArgumentError) return refuse(line, error.message);
    throw error;
  }
}

class ArgumentError extends Error {
  override name = "ArgumentError";
}

class Reading {
  readonly #read: string[] = [];
  readonly #unknown: string[] = [];
  readonly #line: PythonCommandLine;
  readonly #native: Additions;
  readonly #rest: string[];
  /** Which command line the first word belongs to. */
  #command: "original" | "native" | undefined;

  constructor(line: PythonCommandLine, args: string[], native: Additions) {
    this.#line = line;
    this.#native = native;
    this.#rest = [...args];
  }

  all(): string[] {
    for (let arg = this.#rest.shift(); arg !== undefined; arg = this.#rest.shift()) {
      if (arg === "--") for (const word of this.#rest.splice(0)) this.#word(word);
      else if (!isOption(arg)) this.#word(arg);
      else if (this.#option(arg) === "answers") return this.#read;
    }
    if (this.#unknown.length > 0) throw new ArgumentError(`unrecognized arguments: ${this.#unknown.join(" ")}`);
    return this.#read;
  }

  #word(word: string): void {
    const { mode } = this.#line;
    const isFirst = this.#command === undefined;
    if (isFirst && mode?.choices.includes(word)) this.#command = "original";
    else if (isFirst && this.#native.words.includes(word)) this.#command = "native";
    else if (isFirst && mode) throw new ArgumentError(invalidChoice(mode, word));
    else if (this.#command !== "native") {
      this.#unknown.push(word);
      return;
    }
    this.#read.push(word);
  }

  #option(arg: string): "answers" | undefined {
    const [flag, given] = split(arg);
    const [name = flag, ...others] = namesFor(this.#line, flag);
    const option = this.#line.options.find(({ names }) => names.includes(name));
    const takesValue = this.#native.options.get(flag);
    if (takesValue !== undefined && option?.names.includes(flag) !== true) {
      this.#read.push(arg, ...(takesValue && given === undefined ? this.#rest.splice(0, 1) : []));
    } else if (others.length > 0) {
      throw new ArgumentError(`ambiguous option: ${arg} could match ${[name, ...others].join(", ")}`);
    } else if (!option) {
      this.#unknown.push(arg);
    } else if (option.value) {
      this.#read.push(`${name}=${this.#value(option, given)}`);
    } else {
      if (given !== undefined) throw new ArgumentError(`${argument(option)}: ignored explicit argument '${given}'`);
      this.#read.push(name);
      return option.answers ? "answers" : undefined;
    }
    return undefined;
  }

  #value(option: PythonOption, given: string | undefined): string {
    const [next] = this.#rest;
    const value = given ?? (next !== undefined && !isOption(next) ? this.#rest.shift() : undefined);
    if (value === undefined) throw new ArgumentError(`${argument(option)}: expected one argument`);
    const { value: type = "text" } = option;
    if (type !== "text" && !numbers[type].test(value))
      throw new ArgumentError(`${argument(option)}: invalid ${type} value: '${value}'`);
    return value;
  }
}

export function refuse({ usage, program }: PythonCommandLine, message: string): Refusal {
  return { message: `${usage}\n${program}: error: ${message}`, exitCode: 2 };
}

function argument({ names }: PythonOption): string {
  return `argument ${names.join("/")}`;
}

function invalidChoice({ name, choices }: NonNullable<PythonCommandLine["mode"]>, word: string): string {
  const all = choices.map((choice) => `'${choice}'`).join(", ");
  return `argument ${name}: invalid choice: '${word}' (choose from ${all})`;
}

/** Negative numbers and arguments with a space are values. */
function isOption(arg: string): boolean {
  return arg.length > 1 && arg.startsWith("-") && !/^-\d+$|^-\d*\.\d+$|\s/.test(arg);
}

/** Splits `--name=value`, or a short option with an attached value. */
function split(arg: string): [string, string?] {
  if (!arg.startsWith("--")) return arg.length > 2 ? [arg.slice(0, 2), arg.slice(2)] : [arg];
  const at = arg.indexOf("=");
  return at === -1 ? [arg] : [arg.slice(0, at), arg.slice(at + 1)];
}

/** The options that an abbreviated argument can mean. */
function namesFor({ options }: PythonCommandLine, flag: string): string[] {
  const names = options.flatMap((option) => option.names);
  if (names.includes(flag)) return [flag];
  return flag.startsWith("--") ? names.filter((name) => name.startsWith(flag)) : [];
}
