import { type OptionRow, rowsOf } from "../options/spec.ts";
import { table } from "../options/table.ts";
import type { ToolsetDefinition } from "../toolsets/toolset.ts";

const commands = [
  ["cellwright", "serve MCP over stdio, for a client that starts it"],
  ["cellwright serve", "serve MCP over HTTP at /mcp"],
  ["cellwright pool [--ports A-B]", "serve on several ports at once, each a sandbox for --kernel pool"],
  ["cellwright run FILE | -c CODE", "run a file or code once"],
  ["cellwright packages list|prune", "show the installed packages, or remove unused ones"],
  ["cellwright env create [NAME]", "create a Python environment for sessions; --packages adds packages"],
  ["cellwright env list", "show the environments that sessions can use"],
  ["cellwright env remove [NAME]", "remove a created environment"],
  ["cellwright doctor", "check what works on this machine"],
  ["cellwright clean [--yes]", "remove sessions, environments and caches, after asking"],
] as const;

/** Widths of the two columns, in characters. */
const NAME_WIDTH = 31;
const TEXT_WIDTH = 86;

/** The text of `--help`, from the option table; with `--toolset`, its options first. */
export function helpText(toolset?: ToolsetDefinition): string {
  const lines = ["Cellwright: stateful Python and bash for AI agents, over MCP.", "", "Commands"];
  for (const [command, help] of commands) lines.push(...entry(command, help));
  if (toolset) lines.push(...section(`With --toolset ${toolset.name}`, rowsOf(toolset.options)));
  const rows = rowsOf(table, toolset?.commandLine.aliases);
  for (const group of new Set(rows.map((row) => row.group))) {
    const own = rows.filter((row) => row.group === group);
    lines.push(...section(group, own));
  }
  lines.push("", ...entry("--help, -h", "Show this."), ...entry("--version, -v", "Show the version."));
  lines.push("", "Each option is also an environment variable: --data-dir is CELLWRIGHT_DATA_DIR.");
  return `${lines.join("\n")}\n`;
}

function section(title: string, rows: OptionRow[]): string[] {
  if (rows.length === 0) return [];
  const lines = ({ flag, flagAliases, placeholder, help, default: usual }: OptionRow) => {
    const also = flagAliases.length === 0 ? "" : ` Also ${flagAliases.join(", ")}.`;
    const shown = usual === "" ? "" : ` (default: ${usual})`;
    return entry(`${flag} ${placeholder}`.trimEnd(), `${help}${also}${shown}`);
  };
  return ["", title, ...rows.flatMap(lines)];
}

/** A name and its text, wrapped in a column beside it; below it, if the name is too long. */
function entry(name: string, text: string): string[] {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trimStart();
    if (longer.length <= TEXT_WIDTH || lines.at(-1) === "") lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const isBeside = name.length <= NAME_WIDTH;
  const column = lines.map((line, index) => `  ${(isBeside && index === 0 ? name : "").padEnd(NAME_WIDTH)} ${line}`);
  return isBeside ? column : [`  ${name}`, ...column];
}
