/** Parses the text of an option. */
export interface OptionType<T> {
  /** Placeholder for the value in help, `MB` or `auto|wasm`; empty for a flag. */
  placeholder: string;
  /** Returns the value, or throws an Error that says what was expected. */
  parse(value: string): T;
  show(value: T): string;
}

/** `former`: names of values in earlier versions, still accepted. */
export function choice<const T extends readonly string[]>(
  values: T,
  former: Record<string, T[number]> = {},
): OptionType<T[number]> {
  return {
    placeholder: values.join("|"),
    parse(given) {
      const value = former[given] ?? given;
      if (!values.includes(value)) throw new Error(`expected one of ${values.join(", ")}`);
      return value;
    },
    show: String,
  };
}

export function choices<const T extends readonly string[]>(values: T): OptionType<T[number][]> {
  const one = choice(values);
  return {
    placeholder: values.join(","),
    parse: (value) => list("").parse(value).map(one.parse),
    show: (value) => value.join(","),
  };
}

export function integer(min: number, max: number, placeholder: string): OptionType<number> {
  return {
    placeholder,
    parse(value) {
      const number = Number(value);
      if (!/^\d+$/.test(value) || number < min || number > max) {
        throw new Error(`expected a whole number from ${min} to ${max}`);
      }
      return number;
    },
    show: String,
  };
}

export function decimal(min: number, max: number, placeholder: string): OptionType<number> {
  return {
    placeholder,
    parse(value) {
      const number = Number(value);
      if (!/^\d+(\.\d+)?$/.test(value) || number < min || number > max) {
        throw new Error(`expected a number from ${min} to ${max}`);
      }
      return number;
    },
    show: String,
  };
}

/** Longest delay of a Node timer: a longer one would fire at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** Seconds, or a number with a unit; kept in milliseconds. */
export function duration(): OptionType<number> {
  const unitMs: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  return {
    placeholder: "SECONDS",
    parse(value) {
      const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(value);
      const ms = match ? Number(match[1]) * (unitMs[match[2] ?? "s"] ?? 1000) : Number.NaN;
      if (!(ms <= MAX_TIMER_MS)) {
        throw new Error("expected seconds, or a time such as `90s`, `30m` or `2h`, up to 24 days");
      }
      return ms;
    },
    show: (ms) => String(ms / 1000),
  };
}

export function flag(): OptionType<boolean> {
  return {
    placeholder: "",
    parse(value) {
      if (/^(true|1|yes|on)$/i.test(value)) return true;
      if (/^(false|0|no|off)$/i.test(value)) return false;
      throw new Error("expected true or false");
    },
    show: (value) => (value ? "true" : ""),
  };
}

export function text(placeholder: string): OptionType<string> {
  return {
    placeholder,
    parse(value) {
      if (value.trim() === "") throw new Error("expected a value");
      return value;
    },
    show: String,
  };
}

export function list(placeholder: string): OptionType<string[]> {
  return {
    placeholder,
    parse(value) {
      const values = value.split(",").map((item) => item.trim());
      if (values.some((item) => item === "")) throw new Error("expected values separated by commas");
      return values;
    },
    show: (value) => value.join(","),
  };
}
