import { expect, test } from "vitest";
import { describeArguments } from "../../src/mcp/arguments.ts";
import { toolGroups } from "../../src/tools/index.ts";

const tools = toolGroups.flatMap((group) => group.tools);

test("all definitions together take at most 12 kB", () => {
  const listed = tools.map((tool) => ({
    name: tool.name,
    title: tool.title,
    description: tool.description,
    inputSchema: describeArguments(tool).schema,
    annotations: {
      readOnlyHint: tool.readOnly,
      destructiveHint: tool.destructive ?? false,
      idempotentHint: false,
      openWorldHint: false,
    },
  }));
  expect(JSON.stringify({ tools: listed }).length).toBeLessThanOrEqual(12_000);
});

test("names fit every client, and every argument is described", () => {
  for (const tool of tools) {
    expect(tool.name).toMatch(/^[a-z_]{1,30}$/);
    const { properties } = describeArguments(tool).schema as { properties: Record<string, { description?: string }> };
    for (const [name, property] of Object.entries(properties)) {
      expect(property.description, `${tool.name}.${name}`).toMatch(/^[A-Z].*\.$/s);
    }
  }
});

test("the groups hold what the design says", () => {
  expect(toolGroups.map(({ name, tools: own }) => `${name}: ${own.map((tool) => tool.name).join(" ")}`)).toEqual([
    "core: execute_code wait interrupt list_sessions reset_session close_session",
    "files: list_files read_file write_file edit_file delete_file import_file export_file",
    "inspect: list_variables inspect_variable",
    "env: list_environments install_packages",
  ]);
});
