import type { ExecutionEvent, MimeBundle } from "../execution.ts";

/** An event as it came from a kernel, checked: user code can send anything. Undefined: not an event. */
export function checkedEvent(value: unknown): ExecutionEvent | undefined {
  if (!isRecord(value)) return undefined;
  switch (value.type) {
    case "stream": {
      const { name, text } = value;
      if ((name !== "stdout" && name !== "stderr") || typeof text !== "string") return undefined;
      return { type: "stream", name, text };
    }
    case "display": {
      const data = bundle(value.data);
      return (
        data && { type: "display", data, ...(typeof value.displayId === "string" && { displayId: value.displayId }) }
      );
    }
    case "update": {
      const data = bundle(value.data);
      return data && typeof value.displayId === "string"
        ? { type: "update", data, displayId: value.displayId }
        : undefined;
    }
    case "result": {
      const data = bundle(value.data);
      return data && { type: "result", data };
    }
    case "clear":
      return { type: "clear", wait: value.wait === true };
    case "error":
      return boundedError(value);
    case "done": {
      const { status, executionCount } = value;
      if (status !== "ok" && status !== "error") return undefined;
      return { type: "done", status, executionCount: typeof executionCount === "number" ? executionCount : null };
    }
    default:
      return undefined;
  }
}

/** Size limit of an exception. `exception_text.py` respects it, but user code can send anything. */
const MAX_NAME_CHARS = 1_000;
const MAX_MESSAGE_CHARS = 100_000;
const MAX_TRACEBACK_LINES = 1_000;
const MAX_LINE_CHARS = 10_000;
/** Hundreds of long lines could be 10 MB: then each is cut to its share, because the last ones matter most. */
const MAX_TRACEBACK_CHARS = 1_000_000;

function boundedError({ name, message, traceback }: Record<string, unknown>): ExecutionEvent | undefined {
  if (typeof name !== "string" || typeof message !== "string" || !Array.isArray(traceback)) return undefined;
  const lines = traceback
    .slice(0, MAX_TRACEBACK_LINES)
    .filter((line) => typeof line === "string")
    .map((line) => beginning(line, MAX_LINE_CHARS));
  const isLong = lines.reduce((sum, line) => sum + line.length, 0) > MAX_TRACEBACK_CHARS;
  const lineChars = isLong ? Math.floor(MAX_TRACEBACK_CHARS / MAX_TRACEBACK_LINES) : MAX_LINE_CHARS;
  return {
    type: "error",
    name: beginning(name, MAX_NAME_CHARS),
    message: beginning(message, MAX_MESSAGE_CHARS),
    traceback: lines.map((line) => beginning(line, lineChars)),
  };
}

/** A copy: V8's `slice` would keep the whole text in memory. */
function beginning(text: string, chars: number): string {
  return text.length <= chars ? text : Buffer.from(text.slice(0, chars), "utf16le").toString("utf16le");
}

/** Nesting limit: recursive code would overflow its stack. */
const MAX_DEPTH = 100;

/** Limit of representations in one bundle; real ones have a handful. */
const MAX_FORMS = 50;

/** The limit of prelude/mime.py in UTF-16 units: a character beyond the first 65 536 counts as two. */
const MAX_BUNDLE_CHARS = 2 * 8 * 1024 * 1024;

/** Only keys that are MIME types, which `__proto__` is not, and only values within the nesting limit. */
function bundle(data: unknown): MimeBundle | undefined {
  if (!isRecord(data)) return undefined;
  let chars = 0;
  return Object.fromEntries(
    Object.entries(data)
      .slice(0, MAX_FORMS)
      .filter(([kind, form]) => {
        if (!kind.includes("/") || !isShallow(form, MAX_DEPTH)) return false;
        chars += typeof form === "string" ? form.length : 0;
        return chars <= MAX_BUNDLE_CHARS;
      }),
  );
}

function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return depth > 0 && Object.values(value).every((inner) => isShallow(inner, depth - 1));
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
