// Generates docs/{tools,options,errors}.md, .env.example and the README's table of tools from the code. With --check
// nothing is written; stale files are listed, with exit code 1.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import * as z from "zod";
import { build, isStale } from "./build.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const generated = (source) => `Generated from ${source} by \`npm run docs\`. Do not edit.`;

if (isStale()) {
  const complaints = build();
  if (complaints) fail(complaints);
}
const { errorCodes } = await load("errors.js");
const { optionTable } = await load("options/options.js");
const { rowsOf } = await load("options/spec.js");
const { toolsetNames } = await load("options/table.js");
const { loadToolset } = await load("toolsets/index.js");
const { toolGroups } = await load("tools/index.js");
const toolsets = await Promise.all(toolsetNames.map(loadToolset));

const pages = {
  "docs/tools.md": toolsPage(),
  "docs/options.md": optionsPage(),
  "docs/errors.md": errorsPage(),
  ".env.example": envExample(),
  "README.md": readme(),
};
const stale = Object.keys(pages).filter((path) => read(path) !== pages[path]);

if (!process.argv.includes("--check")) {
  for (const path of stale) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), pages[path]);
    console.log(`docs: wrote ${path}`);
  }
} else if (stale.length > 0) fail(`docs: stale: ${stale.join(", ")}. Run \`npm run docs\` and commit the result.\n`);

function toolsPage() {
  return page("Tools", "src/tools", [
    "The tools a client sees, by group; `--caps` chooses the groups.",
    ...toolGroups.flatMap(({ name, summary, tools }) => [`## ${name}`, summary, ...tools.flatMap(toolSection)]),
  ]);
}

function toolSection({ name, description, input, readOnly, destructive }) {
  const schema = z.toJSONSchema(input, { io: "input" });
  const notes = [readOnly && "Read-only.", destructive && "Destructive: cannot be undone."].filter(Boolean);
  const rows = Object.entries(schema.properties ?? {}).map(([argument, property]) => {
    const need = schema.required?.includes(argument) ? "required" : "optional";
    const fallback = property.default === undefined ? "" : ` (default ${code(JSON.stringify(property.default))})`;
    return [code(argument), code(typeOf(property)), need, (property.description ?? "") + fallback];
  });
  const body = rows.length === 0 ? "No arguments." : table(["argument", "type", "", "meaning"], rows);
  return [`### ${name}`, description, ...(notes.length > 0 ? [`*${notes.join(" ")}*`] : []), body];
}

function optionsPage() {
  const section = (group) => [
    `## ${group}`,
    table(["flag", "variable", "default", "meaning"], optionTable.filter((row) => row.group === group).map(optionRow)),
  ];
  return page("Options", "src/options/table.ts", [
    "A flag beats its environment variable, that beats a line of the same name in an `--env-file`, and that beats the default. " +
      "Options marked † decide what code may touch and are not taken from an `--env-file`.",
    ...[...new Set(optionTable.map((row) => row.group))].flatMap(section),
    ...toolsets.flatMap(toolsetSection),
  ]);
}

/** A toolset's own options, and its names for native ones. */
function toolsetSection({ name, options, commandLine }) {
  const rows = rowsOf(options);
  const renamed = Object.entries(commandLine.aliases ?? {}).map(([option, { flags = [], env = [] }]) => {
    const native =
      optionTable.find((row) => row.name === option) ?? fail(`docs: ${name} renames ${option}, which is no option.\n`);
    return `${[...flags, ...env].map(code).join(", ")} for ${code(native.flag)}`;
  });
  if (rows.length + renamed.length === 0) return [];
  return [
    `## With \`--toolset ${name}\``,
    ...(rows.length > 0 ? [table(["flag", "variable", "default", "meaning"], rows.map(optionRow))] : []),
    ...(renamed.length > 0 ? [`Also accepted: ${renamed.join("; ")}.`] : []),
  ];
}

function optionRow({ flag, env, placeholder, default: fallback, help, secret, trusted, flagAliases, envAliases }) {
  const others = [...flagAliases, ...envAliases].map(code).join(", ");
  const notes = [help, secret && "Never printed.", others && `Also ${others}.`].filter(Boolean).join(" ");
  return [code(`${flag} ${placeholder}`.trim()) + (trusted ? " †" : ""), code(env), shownDefault(fallback), notes];
}

/** Descriptions as text, values as code. */
function shownDefault(fallback) {
  return fallback === "" || fallback.includes(" ") ? fallback : code(fallback);
}

function errorsPage() {
  const families = {
    caller: "The request cannot be served as asked; change the arguments.",
    environment: "What Cellwright runs on failed; retry where that helps, or ask the operator.",
    bug: "A mistake in Cellwright.",
  };
  const unknown = Object.values(errorCodes).find(({ family }) => !families[family]);
  if (unknown) fail(`docs: describe the error family ${unknown.family} in scripts/docs.mjs.\n`);
  const section = (family) => [
    `## ${family}`,
    families[family],
    table(
      ["code", "retry", "HTTP", "hint"],
      Object.entries(errorCodes)
        .filter(([, entry]) => entry.family === family)
        .map(([name, { retry, http, hint }]) => [code(name), retry ? "yes" : "no", String(http), hint]),
    ),
  ];
  return page("Errors", "src/errors.ts", [
    "An error means that Cellwright could not do its job. What a cell does (an exception, a timeout, a kernel that dies " +
      "under it) is a normal result with a `status`. Over MCP an error is a tool result with `isError`, the code, a message " +
      "and a hint; the HTTP status is for plain HTTP routes. Retry: the same call may succeed later without any change. " +
      "The hint is the general one; where the place that fails knows better, it says so.",
    ...Object.keys(families).flatMap(section),
  ]);
}

function envExample() {
  const rows = optionTable.filter(({ trusted }) => !trusted);
  const lines = rows.flatMap(({ env, placeholder, default: fallback, help, group, secret }, index) => [
    ...(rows[index - 1]?.group === group ? [] : [`\n## ${group}`]),
    `# ${help}`,
    `#${env}=${secret || fallback === "" || fallback.includes(" ") ? placeholder || "true" : fallback}`,
  ]);
  const intro = `# ${generated("src/options/table.ts")}\n# Copy it, remove the # of what you set, and start with --env-file.`;
  return `${intro}\n${lines.join("\n")}\n`;
}

function readme() {
  const text = read("README.md") ?? fail("docs: there is no README.md to put the table of tools into.\n");
  const [start, end] = ["<!-- tools:start -->", "<!-- tools:end -->"];
  const [from, to] = [text.indexOf(start), text.indexOf(end)];
  if (from === -1 || to < from) fail(`docs: README.md needs the lines ${start} and ${end}, in this order.\n`);
  const rows = toolGroups.map(({ name, summary, tools }) => [
    name,
    tools.map((tool) => `[${code(tool.name)}](docs/tools.md#${tool.name})`).join(", "),
    summary,
  ]);
  const body = `${start}\n<!-- ${generated("src/tools")} -->\n\n${table(["group", "tools", "for"], rows)}\n\n`;
  return text.slice(0, from) + body + text.slice(to);
}

/** A type as a reader would write it: `string`, `"python" | "bash"`, `string[]`. */
function typeOf(schema) {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const union = schema.anyOf ?? schema.oneOf;
  if (union) return [...new Set(union.map(typeOf))].join(" | ");
  if (schema.type === "array") {
    const item = typeOf(schema.items ?? {});
    return item.includes(" ") ? `(${item})[]` : `${item}[]`;
  }
  return Array.isArray(schema.type) ? schema.type.join(" | ") : (schema.type ?? "any");
}

function page(title, source, blocks) {
  return `${[`<!-- ${generated(source)} -->`, `# ${title}`, ...blocks].join("\n\n")}\n`;
}

function table(head, rows) {
  const line = (cells) =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replace(/\s*\n\s*/g, " ")).join(" | ")} |`;
  return [line(head), `|${head.map(() => "---").join("|")}|`, ...rows.map(line)].join("\n");
}

function code(text) {
  return `\`${text}\``;
}

async function load(path) {
  return import(pathToFileURL(join(root, "dist", path)).href);
}

function read(path) {
  return existsSync(join(root, path)) ? readFileSync(join(root, path), "utf8") : undefined;
}

function fail(message) {
  process.stderr.write(message);
  process.exit(1);
}
