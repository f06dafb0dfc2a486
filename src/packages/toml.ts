/** As much of TOML as stands in the block of a script: keys, strings, lists, plain values, tables that are passed over. */

export type TomlValue = string | TomlValue[] | { bare: string } | { table: Record<string, TomlValue> };

export class TomlError extends Error {
  override name = "TomlError";
}

/** The keys before the first table, which are the only ones that anybody asks for. */
export function readToml(text: string): Record<string, TomlValue> {
  const found: Record<string, TomlValue> = Object.create(null);
  const reader = createReader(text);
  let inTable = false;
  for (reader.skipBlank(); !reader.atEnd(); reader.skipBlank()) {
    if (reader.peek() === "[") {
      reader.tableHeader();
      inTable = true;
    } else {
      const [first = "", ...rest] = reader.key();
      const value = reader.value();
      if (!inTable && rest.length === 0) {
        if (first in found) throw new TomlError(`\`${first}\` is there twice`);
        found[first] = value;
      }
    }
    reader.endOfLine();
  }
  return found;
}

const escapes: Record<string, string> = {
  b: "\b",
  t: "\t",
  n: "\n",
  f: "\f",
  r: "\r",
  e: "\u001b",
  '"': '"',
  "\\": "\\",
};

function createReader(text: string) {
  let at = 0;

  const fail = (what: string): never => {
    const line = text.slice(0, at).split("\n").length;
    throw new TomlError(`${what} in its line ${line}`);
  };
  const take = (pattern: RegExp): RegExpExecArray | undefined => {
    const sticky = new RegExp(pattern.source, "y");
    sticky.lastIndex = at;
    const match = sticky.exec(text) ?? undefined;
    if (match) at += match[0].length;
    return match;
  };
  const skipBlank = () => void take(/(?:[ \t\r\n]|#[^\n]*)*/);
  const skipSpace = () => void take(/[ \t]*/);

  const decoded = (body: string): string =>
    body.replace(/\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([\s\S]))/g, (_, short, long, single) => {
      if (single !== undefined) return escapes[single] ?? fail(`the escape \`\\${single}\` is unknown`);
      const code = Number.parseInt(short ?? long, 16);
      return code > 0x10ffff ? fail("a character is out of range") : String.fromCodePoint(code);
    });

  const string = (): string | undefined => {
    const longBasic = take(/"""\r?\n?((?:[^"\\]|\\[\s\S]|"(?!""))*)"""/);
    // A backslash at the end of a line joins it with the next word.
    if (longBasic) return decoded((longBasic[1] ?? "").replace(/\\[ \t]*\r?\n\s*/g, ""));
    const longLiteral = take(/'''\r?\n?((?:[^']|'(?!''))*)'''/);
    if (longLiteral) return longLiteral[1];
    const basic = take(/"((?:[^"\\\n]|\\[^\n])*)"/);
    if (basic) return decoded(basic[1] ?? "");
    return take(/'([^'\n]*)'/)?.[1];
  };

  const key = (): string[] => {
    const parts: string[] = [];
    do {
      skipSpace();
      const part = take(/[A-Za-z0-9_-]+/)?.[0] ?? string() ?? fail("there is no key");
      parts.push(part);
      skipSpace();
    } while (take(/\./));
    return parts;
  };

  const value = (): TomlValue => {
    const text = string();
    if (text !== undefined) return text;
    if (take(/\[/)) return list();
    if (take(/\{/)) return inlineTable();
    const bare = take(/[^\s,\]}#]+(?: [0-9][^\s,\]}#]*)?/)?.[0];
    if (bare === undefined) return fail("a value is missing");
    if (!/^(true|false|[+-]?(\d|inf|nan).*)$/.test(bare)) return fail(`\`${bare}\` is not a value`);
    return { bare };
  };

  const list = (): TomlValue[] => {
    const items: TomlValue[] = [];
    for (;;) {
      skipBlank();
      if (take(/\]/)) return items;
      items.push(value());
      skipBlank();
      if (take(/\]/)) return items;
      if (!take(/,/)) fail("a list is not closed, or a comma is missing");
    }
  };

  const inlineTable = (): TomlValue => {
    const table: Record<string, TomlValue> = Object.create(null);
    for (;;) {
      skipBlank();
      if (take(/\}/)) return { table };
      const name = assignedKey();
      table[name.join(".")] = value();
      skipBlank();
      if (take(/\}/)) return { table };
      if (!take(/,/)) fail("a table is not closed, or a comma is missing");
    }
  };

  const assignedKey = (): string[] => {
    const name = key();
    if (!take(/=/)) fail("`=` is missing");
    skipSpace();
    return name;
  };

  return {
    skipBlank,
    value,
    key: assignedKey,
    peek: () => text[at],
    atEnd: () => at >= text.length,
    tableHeader(): void {
      const double = take(/\[\[/) !== undefined;
      if (!double) take(/\[/);
      key();
      if (!take(double ? /\]\]/ : /\]/)) fail("a table's name is not closed");
    },
    endOfLine(): void {
      if (!take(/[ \t]*(?:#[^\n]*)?(?:\r?\n|$)/)) fail("there is something left");
    },
  };
}
