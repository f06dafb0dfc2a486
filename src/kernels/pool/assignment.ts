import type { Variables } from "../../execution.ts";

/**
 * Python that puts values into the namespace and leaves nothing else there. The values travel as base64 of JSON, so
 * that nothing in them can ever be read as code.
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
