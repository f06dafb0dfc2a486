import { parse, TomlError } from "smol-toml";
import { CellwrightError } from "../errors.ts";

const opening = /^# \/\/\/ script[ \t]*$/;
const closing = /^# \/\/\/[ \t]*$/;

/** The dependencies in a cell's `# /// script` block (PEP 723); undefined without a block. */
export function requirementsOf(code: string): string[] | undefined {
  const lines = code.split(/\r?\n/);
  const starts = lines.flatMap((line, index) => (opening.test(line) ? [index] : []));
  const [start] = starts;
  if (start === undefined) return undefined;
  const blocks = starts.map((at) => blockAt(lines, at)).filter((block) => block !== undefined);
  if (blocks.length === 0) throw malformed("the closing line `# ///` is missing, or a line does not begin with `#`");
  if (blocks.length > 1) throw malformed("Multiple script blocks found, and there can be one");
  const { dependencies } = parsed((blocks[0] ?? []).map((line) => line.replace(/^# ?/, "")).join("\n"));
  if (dependencies === undefined) return undefined;
  if (!Array.isArray(dependencies) || !dependencies.every((entry) => typeof entry === "string")) {
    throw malformed("`dependencies` is not a list of strings");
  }
  return dependencies;
}

function parsed(toml: string): Record<string, unknown> {
  try {
    return parse(toml, { integersAsBigInt: "asNeeded" });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    // The first line is the error; an excerpt of the text follows.
    const what = error.message.split("\n")[0]?.replace("Invalid TOML document: ", "");
    throw malformed(`line ${error.line} is not valid TOML (${what})`, error);
  }
}

/** The lines of a block. It ends at the last `# ///` before a line that is not a comment. */
function blockAt(lines: string[], start: number): string[] | undefined {
  let end: number | undefined;
  for (let at = start + 1; at < lines.length; at += 1) {
    const line = lines[at] ?? "";
    if (closing.test(line)) end = at;
    else if (!/^#( |$)/.test(line) || opening.test(line)) break;
  }
  return end === undefined ? undefined : lines.slice(start + 1, end);
}

function malformed(why: string, cause?: unknown): CellwrightError {
  return new CellwrightError("invalid_input", `The \`# /// script\` block of this cell is invalid: ${why}.`, {
    cause,
    hint: 'Write it as `# /// script`, `# dependencies = ["sympy", "pandas"]`, `# ///`, one per line.',
  });
}
