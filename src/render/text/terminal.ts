/** CSI (colors, cursor), OSC (titles, links), DCS and similar, two-character sequences. None of them spans lines. */
const ESCAPE =
  "\\u001b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\\u0007\\u001b\\n]*(?:\\u0007|\\u001b\\\\)?|[PX^_][^\\u001b\\n]*(?:\\u001b\\\\)?|[ -/]*[0-~])";
const escapes = new RegExp(ESCAPE, "g");
const tokens = new RegExp(`${ESCAPE}|[\\n\\r\\b]|[^\\u001b\\n\\r\\b]+|\\u001b`, "g");
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const movesCursor = /[\r\b]|\u001b\[[0-9;]*[A-HJKf]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const cursorCode = /^\u001b\[([0-9;]*)([A-HJKf])$/;

/** Limit for moving the cursor beyond the text: a short escape sequence must not create a huge text. */
const MAX_JUMP = 1_000;

/** The text as a terminal would show it, with other control characters made visible. */
export function plainText(text: string): string {
  const shown = movesCursor.test(text) ? playBack(text) : text.includes("\u001b") ? text.replace(escapes, "") : text;
  return visible(shown);
}

/** The text without escape sequences. */
export function withoutEscapes(text: string): string {
  return text.includes("\u001b") ? text.replace(escapes, "") : text;
}

/** Control characters as symbols (`␀`), lone surrogates replaced; tabs and line ends stay. */
export function visible(text: string): string {
  return (
    text
      .toWellFormed()
      .replaceAll("\r\n", "\n")
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is replaced
      .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, (char) => {
        const code = char.charCodeAt(0);
        if (code < 0x20) return String.fromCharCode(0x2400 + code);
        return code === 0x7f ? "\u2421" : "\ufffd";
      })
  );
}

/** Emulates cursor movement and erasing, on a screen as large as the text. */
function playBack(text: string): string {
  let rows = [""];
  let row = 0;
  let column = 0;
  const moveTo = (toRow: number, toColumn: number) => {
    row = Math.max(0, toRow);
    column = Math.max(0, Math.min(toColumn, Math.max(column, MAX_JUMP)));
    if (row === rows.length) rows.push("");
  };
  for (const [token] of text.matchAll(tokens)) {
    const line = rows[row] ?? "";
    if (token === "\n") moveTo(row + 1, 0);
    else if (token === "\r") column = 0;
    else if (token === "\b") column = Math.max(0, column - 1);
    else if (!token.startsWith("\u001b")) {
      const before = column === line.length ? line : line.slice(0, column).padEnd(column);
      rows[row] = before + token + line.slice(column + token.length);
      column += token.length;
    } else {
      const [, parameters = "", code] = cursorCode.exec(token) ?? [];
      const [first = 0, second = 0] = parameters.split(";").map(Number);
      const steps = Math.max(first, 1);
      if (code === "A") moveTo(row - steps, column);
      else if (code === "B") moveTo(Math.min(row + steps, rows.length - 1), column);
      else if (code === "C") moveTo(row, column + steps);
      else if (code === "D") moveTo(row, column - steps);
      else if (code === "E") moveTo(Math.min(row + steps, rows.length - 1), 0);
      else if (code === "F") moveTo(row - steps, 0);
      else if (code === "G") moveTo(row, steps - 1);
      else if (code === "H" || code === "f") moveTo(Math.min(steps - 1, rows.length - 1), Math.max(second, 1) - 1);
      else if (code === "K") rows[row] = erased(line, column, first);
      else if (code === "J" && first === 0) {
        rows = rows.slice(0, row + 1);
        rows[row] = line.slice(0, column);
      } else if (code === "J" && first >= 2) {
        rows = [""];
        moveTo(0, 0);
      }
    }
  }
  return rows.join("\n");
}

function erased(line: string, column: number, how: number): string {
  if (how === 0) return line.slice(0, column);
  return how === 1 ? " ".repeat(Math.min(column, line.length)) + line.slice(column) : "";
}
