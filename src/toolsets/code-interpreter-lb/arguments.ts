import * as z from "zod";

/** A week: within the limit of a Node timer. */
const MAX_TIMEOUT_S = 604_800;

const types = {
  session_id: z.string(),
  code: z.string(),
  timeout: z.int(),
  initialization_images: z.array(z.string()),
};
const whole = z.object({
  ...types,
  timeout: types.timeout.default(30),
  initialization_images: types.initialization_images.default([]),
});
const typeNames = { session_id: "string", code: "string", timeout: "integer", initialization_images: "array" };

/** The parsed arguments, or the original's text about what is wrong with them. */
export function checkArguments(given: Record<string, unknown>): z.infer<typeof whole> | { problem: string } {
  const refuse = (problem: string) => ({ problem: `Input validation error: ${problem}` });
  for (const name of ["session_id", "code"]) {
    if (given[name] === undefined) return refuse(`'${name}' is a required property`);
  }
  for (const name of Object.keys(types) as (keyof typeof types)[]) {
    const value = given[name];
    if (value === undefined || types[name].safeParse(value).success) continue;
    const wrong = Array.isArray(value) ? value.find((item) => typeof item !== "string") : value;
    const wanted = Array.isArray(value) && name === "initialization_images" ? "string" : typeNames[name];
    return refuse(`${name}: ${shown(wrong)} is not of type '${wanted}'`);
  }
  const checked = whole.parse(given);
  const { timeout } = checked;
  if (timeout < 1) return refuse(`timeout: ${timeout} is less than the minimum of 1`);
  if (timeout > MAX_TIMEOUT_S) return refuse(`timeout: ${timeout} is greater than the maximum of ${MAX_TIMEOUT_S}`);
  return checked;
}

/** Python's repr of a value, approximately. */
function shown(value: unknown): string {
  const text = typeof value === "string" ? `'${value}'` : JSON.stringify(value);
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
