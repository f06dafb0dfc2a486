import { optionTable } from "../options.ts";

const commands = [
  ["cellwright", "serve MCP over stdio, for a client that starts it"],
  ["cellwright serve", "serve MCP over HTTP at /mcp"],
  ["cellwright pool [--ports A-B]", "serve on several ports at once, each a sandbox for --kernel pool"],
  ["cellwright run FILE | -c CODE", "run a file or a piece of code once"],
  ["cellwright packages list|prune", "show the installed packages, or remove unused ones"],
  ["cellwright env create [NAME]", "make a Python environment for sessions; --packages adds to the usual ones"],
  ["cellwright env list", "show the environments that sessions can use"],
  ["cellwright env remove [NAME]", "remove one that was made so"],
  ["cellwright doctor", "say what works on this machine"],
  ["cellwright clean [--yes]", "remove all data, after asking"],
] as const;

/** The text of `--help`, from the option table. */
export function helpText(): string {
  const lines = ["Cellwright: stateful Python and bash for AI agents, over MCP.", "", "Commands"];
  for (const [command, help] of commands) lines.push(`  ${command.padEnd(30)} ${help}`);
  for (const group of new Set(optionTable.map((row) => row.group))) {
    lines.push("", group);
    for (const row of optionTable.filter((candidate) => candidate.group === group)) {
      const shown = row.default === "" ? "" : ` (default: ${row.default})`;
      const also = row.flagAliases.length === 0 ? "" : ` Also ${row.flagAliases.join(", ")}.`;
      lines.push(`  ${`${row.flag} ${row.placeholder}`.trimEnd().padEnd(30)} ${row.help}${also}${shown}`);
    }
  }
  lines.push("", `  ${"--help, -h".padEnd(30)} Show this.`, `  ${"--version, -v".padEnd(30)} Show the version.`);
  lines.push("", "Each option is also an environment variable: --data-dir is CELLWRIGHT_DATA_DIR.");
  return `${lines.join("\n")}\n`;
}
