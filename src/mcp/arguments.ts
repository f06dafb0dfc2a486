import * as z from "zod";
import { CellwrightError } from "../errors.ts";
import type { Json } from "../execution.ts";
import { packValues } from "../json-text.ts";
import { nearest } from "../nearest.ts";
import type { Tool } from "../tools/tool.ts";

/** A tool's arguments as JSON Schema, with the keywords that error messages use. */
export interface ArgumentsSchema {
  [key: string]: unknown;
  type: "object";
  properties: Record<string, PropertySchema>;
}

type PropertySchema = { [key: string]: Json } & {
  type?: string;
  enum?: string[];
  anyOf?: PropertySchema[];
};

/** A tool's parser and the schema that clients see. Both refuse unknown arguments. */
export interface ToolArguments {
  schema: ArgumentsSchema;
  /** Throws `invalid_input` with the mistake, the expected type and what to do. */
  parse(given: unknown): z.infer<z.ZodObject>;
}

export function describeArguments(tool: Tool): ToolArguments {
  const parser = tool.exact ? tool.input : tool.input.strict();
  const schema =
    (tool.exact?.inputSchema as ArgumentsSchema | undefined) ?? portable(z.toJSONSchema(parser, { io: "input" }));
  return {
    schema,
    parse(given) {
      const large = tool.packed === undefined ? undefined : valueAt(given, [tool.packed]);
      if (large !== undefined) packValues(large);
      const parsed = parser.safeParse(withoutNulls(given ?? {}));
      if (parsed.success) return parsed.data;
      const problems = parsed.error.issues.flatMap((issue) => explain(issue, given, { tool: tool.name, schema }));
      throw new CellwrightError("invalid_input", [...new Set(problems)].join(" "));
    },
  };
}

/** Some models write `null` for an omitted argument. */
function withoutNulls(given: unknown): unknown {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return given;
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
}

/**
 * Some clients support little of JSON Schema: no `$schema`, no bounds or property names that all JSON satisfies, and
 * `anyOf` instead of a list of types.
 */
function portable(json: object): ArgumentsSchema {
  const text = JSON.stringify(json, (key, value) => {
    if (key === "$schema" || value === Number.MIN_SAFE_INTEGER || value === Number.MAX_SAFE_INTEGER) return undefined;
    if (key === "propertyNames" && Object.keys(value).join() === "type") return undefined;
    if (!Array.isArray(value?.type)) return value;
    const { type: types, ...rest } = value;
    return { anyOf: types.map((type: string) => ({ type })), ...rest };
  });
  const schema = JSON.parse(text);
  return { ...schema, properties: schema.properties ?? {} };
}

function explain(
  issue: z.core.$ZodIssue,
  given: unknown,
  { tool, schema }: { tool: string; schema: ArgumentsSchema },
): string[] {
  const names = Object.keys(schema.properties);
  if (issue.code === "unrecognized_keys" && issue.path.length === 0) {
    return issue.keys.slice(0, 5).map((long) => {
      const key = long.slice(0, 100);
      const [meant] = nearest(key, names);
      const advice = meant ? `Did you mean \`${meant}\`?` : "Remove it.";
      return `\`${key}\` is not an argument of ${tool}. ${advice} Its arguments are ${list(names)}.`;
    });
  }
  const name = String(issue.path[0] ?? "");
  const property = schema.properties[name];
  if (!property) return [`${tool}: ${issue.message}.`];
  const value = valueAt(given, issue.path);
  const shown = issue.path.length > 1 ? `\`${issue.path.join(".")}\`` : `\`${name}\``;
  const expected = issue.path.length > 1 ? undefined : typeNames(property);
  if (value === undefined && issue.path.length === 1) {
    return [`${shown} is missing: ${expected ?? "a value"} is expected.`];
  }
  if (expected && (issue.code === "invalid_type" || issue.code === "invalid_union")) {
    return [`${shown} must be ${expected}, but ${typeOf(value)} was given.`];
  }
  return [`${shown}: ${issue.message}.`];
}

function typeNames(property: PropertySchema): string | undefined {
  if (property.enum) return `one of ${list(property.enum)}`;
  if (property.anyOf) return [...new Set(property.anyOf.map(typeNames))].filter(Boolean).join(" or ");
  return property.type && withArticle(property.type);
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  return withArticle(Array.isArray(value) ? "array" : typeof value);
}

const withArticle = (noun: string) => (noun === "null" ? noun : `${/^[aeio]/.test(noun) ? "an" : "a"} ${noun}`);
const list = (names: string[]) => (names.length > 0 ? names.map((name) => `\`${name}\``).join(", ") : "none");

function valueAt(given: unknown, path: PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) =>
      typeof value === "object" && value !== null && Object.hasOwn(value, key)
        ? (value as Record<PropertyKey, unknown>)[key]
        : undefined,
    given,
  );
}
