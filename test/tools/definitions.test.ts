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

// Converters of some clients drop or refuse the rest of JSON Schema. Other accepted input is not in the schema.
test("schemas use only the keywords that every client's converter knows", () => {
  const keywords =
    "type description enum items minimum maximum minLength maxLength minItems maxItems additionalProperties";
  for (const tool of tools) {
    const { type, properties, required, additionalProperties, ...rest } = describeArguments(tool).schema;
    expect({ type, additionalProperties, rest }, tool.name).toEqual({
      type: "object",
      additionalProperties: false,
      rest: {},
    });
    for (const [name, property] of Object.entries(properties)) check(property, `${tool.name}.${name}`);
  }

  function check(schema: object, path: string): void {
    expect(
      Object.keys(schema).filter((key) => !keywords.split(" ").includes(key)),
      path,
    ).toEqual([]);
    const { type, items, additionalProperties } = schema as Record<string, unknown>;
    expect(type, `${path}: one type`).toBeTypeOf("string");
    for (const inner of [items, additionalProperties]) {
      if (typeof inner === "object" && inner !== null && Object.keys(inner).length > 0) check(inner, `${path}[]`);
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
