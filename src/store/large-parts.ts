import type { Execution } from "../execution.ts";

/** Longer parts of an execution become separate files, so that journal lines stay short. */
const LARGE_CHARS = 16_384;

const NOT_KEPT = "(not kept: it is too large)";

/** Where a large part belongs, and the file that has it. */
export interface LargePart {
  place: string;
  file: string;
  as: "text" | "base64" | "json";
}

/** Undefined: it does not fit. */
export type PutFile = (bytes: Uint8Array, mimeType: string) => Promise<string | undefined>;
export type GetFile = (name: string) => Promise<Uint8Array | undefined>;

/** Replaces large parts by null; returns the execution and the list to restore them from. */
export async function extractLargeParts(
  execution: Execution,
  put: PutFile,
): Promise<{ execution: Execution; large: LargePart[] }> {
  const large: LargePart[] = [];
  const slim = await eachPart(execution, async (place, value, mimeType) => {
    const json = toJson(value);
    if (json === undefined) return "(not kept: nested too deeply)";
    if (json.length <= LARGE_CHARS) return value;
    const content = fileContent(value, json, mimeType);
    const file = await put(content.bytes, content.mimeType);
    if (file === undefined) return typeof value === "string" ? NOT_KEPT : null;
    large.push({ place, as: content.as, file });
    return null;
  });
  return { execution: slim, large };
}

/** Restores the execution. A part whose file is gone becomes empty, and a notice says so. */
export async function restoreLargeParts(execution: Execution, large: LargePart[], get: GetFile): Promise<Execution> {
  if (large.length === 0) return execution;
  const byPlace = new Map(large.map((part) => [part.place, part]));
  let lost = 0;
  const whole = await eachPart(execution, async (place, value) => {
    const part = byPlace.get(place);
    if (!part) return value;
    const bytes = await get(part.file);
    if (!bytes) lost += 1;
    const buffer = Buffer.from(bytes ?? []);
    if (part.as === "json") return bytes ? JSON.parse(buffer.toString()) : [];
    return buffer.toString(part.as === "base64" ? "base64" : "utf8");
  });
  if (lost > 0) whole.notices = [...whole.notices, "A large part of this cell's record was removed."];
  return whole;
}

type Change = (place: string, value: unknown, mimeType: string) => Promise<unknown>;

/** Visits everything that can be large: each field; of outputs, each field and each MIME type. */
async function eachPart(execution: Execution, change: Change): Promise<Execution> {
  const { outputs, ...rest } = execution;
  const changed = await eachEntry(rest, (key, value) => change(key, value, "text/plain"));
  const changedOutputs: unknown[] = [];
  for (const [index, output] of outputs.entries()) {
    const place = `outputs/${index}`;
    changedOutputs.push(
      await eachEntry(output, (key, value) =>
        key === "data"
          ? eachEntry(Object(value), (mimeType, form) => change(`${place}/data/${mimeType}`, form, mimeType))
          : change(`${place}/${key}`, value, "text/plain"),
      ),
    );
  }
  return { ...changed, outputs: changedOutputs } as Execution;
}

/** `fromEntries` instead of assignment: a cell may name a MIME type `__proto__`. */
async function eachEntry(object: object, change: (key: string, value: unknown) => Promise<unknown>): Promise<object> {
  const entries: [string, unknown][] = [];
  for (const [key, value] of Object.entries(object)) entries.push([key, await change(key, value)]);
  return Object.fromEntries(entries);
}

/** A real image file where decoding is lossless, so that the file is usable by itself; otherwise the exact text. */
function fileContent(
  value: unknown,
  json: string,
  mimeType: string,
): { as: LargePart["as"]; bytes: Buffer; mimeType: string } {
  // UTF-8 cannot encode lone surrogates; JSON escapes them.
  if (typeof value !== "string" || !value.isWellFormed()) {
    return { as: "json", bytes: Buffer.from(json), mimeType: "application/json" };
  }
  const isText = /^text\/|[+/](json|xml|javascript)$/.test(mimeType);
  const binary = isText ? undefined : Buffer.from(value, "base64");
  if (binary?.toString("base64") === value) return { as: "base64", bytes: binary, mimeType };
  return { as: "text", bytes: Buffer.from(value), mimeType: isText ? mimeType : "text/plain" };
}

/** Undefined if JSON cannot encode it: output of a cell may be nested deeper than the stack. */
function toJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value) ?? "null";
  } catch {
    return undefined;
  }
}
