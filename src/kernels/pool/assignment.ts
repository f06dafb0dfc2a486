import type { Variables } from "../../execution.ts";

/**
 * Python code that defines these variables and nothing else. The values are base64-encoded JSON, so that no value can
 * be interpreted as code.
 */
export function assignmentOf(variables: Variables): string {
  const values: Record<string, unknown> = {};
  const bytes: Record<string, string> = {};
  for (const [name, value] of Object.entries(variables)) {
    if (value instanceof Uint8Array) bytes[name] = Buffer.from(value).toString("base64");
    else values[name] = value;
  }
  const encoded = Buffer.from(JSON.stringify({ values, bytes })).toString("base64");
  return (
    "(lambda decode, load: (lambda given: globals().update(" +
    'given["values"], **{name: decode(text) for name, text in given["bytes"].items()}' +
    `))(load(decode("${encoded}"))))(__import__("base64").b64decode, __import__("json").loads)`
  );
}
