import * as z from "zod";

/** Pydantic accepts `"12"` and `12.0` as 12. */
export const lenientInteger = z.preprocess((value) => {
  if (typeof value !== "string") return value;
  return /^\s*[+-]?\d+(\.0*)?\s*$/.test(value) ? Number(value) : value;
}, z.number().int());

/** Pydantic accepts `"yes"` and `1` as true. */
export const lenientBoolean = z.preprocess((value) => {
  const word = typeof value === "string" || typeof value === "number" ? String(value).toLowerCase() : value;
  if (["true", "t", "yes", "y", "on", "1"].includes(word as string)) return true;
  if (["false", "f", "no", "n", "off", "0"].includes(word as string)) return false;
  return value;
}, z.boolean());

/** The schemas that FastMCP with pydantic generates for a function's arguments and result. */
export function pydanticSchemas(tool: string, input: z.ZodObject, values: object | true) {
  const fields = Object.entries(z.toJSONSchema(input).properties ?? {}).map(([name, field]) => {
    const { default: usual, type } = field as z.core.JSONSchema.BaseSchema;
    return { name, schema: { ...(usual !== undefined && { default: usual }), title: titleOf(name), type } };
  });
  const required = fields.filter(({ schema }) => !("default" in schema)).map(({ name }) => name);
  return {
    inputSchema: {
      properties: Object.fromEntries(fields.map(({ name, schema }) => [name, schema])),
      ...(required.length > 0 && { required }),
      title: `${tool}Arguments`,
      type: "object",
    },
    outputSchema: { additionalProperties: values, title: `${tool}DictOutput`, type: "object" },
  };
}

/** `session_id` → `Session Id`. */
function titleOf(name: string): string {
  return name.replaceAll("_", " ").replace(/\b[a-z]/g, (letter) => letter.toUpperCase());
}
