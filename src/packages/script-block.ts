import { CellwrightError } from "../errors.ts";
import { readToml, TomlError } from "./toml.ts";

const opening = /^# \/\/\/ script[ \t]*$/;
const closing = /^# \/\/\/[ \t]*$/;

/** The dependencies that a cell declares in a `# /// script` block (PEP 723); undefined when it has none. */
export function requirementsOf(code: string): string[] | undefined {
  const lines = code.split(/\r?\n/);
  const starts = lines.flatMap((line, index) => (opening.test(line) ? [index] : []));
  const [start] = starts;
  if (start === undefined) return undefined;
  const blocks = starts.map((at) => blockAt(lines, at)).filter((block) => block !== undefined);
  if (blocks.length === 0)
    throw malformed("it has no line `# ///` at its end, or a line in it does not begin with `#`");
  if (blocks.length > 1) throw malformed("Multiple script blocks found, and there can be one");
  try {
    const { dependencies } = readToml((blocks[0] ?? []).map((line) => line.replace(/^# ?/, "")).join("\n"));
    if (dependencies === undefined) return undefined;
    if (!Array.isArray(dependencies) || !dependencies.every((entry) => typeof entry === "string")) {
      throw new TomlError("`dependencies` is not a list of strings");
    }
    return dependencies;
  } catch (error) {
    if (error instanceof TomlError) throw malformed(error.message, error);
    throw error;
  }
}

/** The lines of a block. It reaches to the last `# ///` before a line that is no comment. */
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
  return new CellwrightError("invalid_input", `The \`# /// script\` block of this cell cannot be read: ${why}.`, {
    cause,
    hint: 'Write it as `# /// script`, `# dependencies = ["sympy", "pandas"]`, `# ///`, a line each.',
  });
}
