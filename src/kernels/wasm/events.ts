import type { ExecutionEvent, MimeBundle } from "../../execution.ts";
import { boundedError } from "./host/bounds.ts";

/** An event as it came from the kernel, checked: user code can send anything. Nothing: not an event. */
export function parseEvent(value: unknown): ExecutionEvent | undefined {
  if (!isRecord(value)) return undefined;
  const { type } = value;
  if (type === "stream") {
    const { name, text } = value;
    if ((name !== "stdout" && name !== "stderr") || typeof text !== "string") return undefined;
    return { type, name, text };
  }
  if (type === "display") {
    const { data, displayId } = value;
    if (!isRecord(data)) return undefined;
    return typeof displayId === "string" ? { type, data: bundle(data), displayId } : { type, data: bundle(data) };
  }
  if (type === "update") {
    const { data, displayId } = value;
    return isRecord(data) && typeof displayId === "string" ? { type, data: bundle(data), displayId } : undefined;
  }
  if (type === "clear") return { type, wait: value.wait === true };
  if (type === "result") return isRecord(value.data) ? { type, data: bundle(value.data) } : undefined;
  if (type === "error") {
    const texts = boundedError(value);
    return texts && { type, ...texts };
  }
  if (type === "done") {
    const { status, executionCount } = value;
    if (status !== "ok" && status !== "error") return undefined;
    return { type, status, executionCount: typeof executionCount === "number" ? executionCount : null };
  }
  return undefined;
}

/** Deeper JSON is of no use to anybody, and everything that walks it would overflow its stack. */
const MAX_DEPTH = 100;

/** Forms of one thing that are looked at; real ones have a handful. */
const MAX_FORMS = 50;

/** Only keys that are MIME types, which `__proto__` is not, and only forms that can be walked. */
function bundle(data: Record<string, unknown>): MimeBundle {
  return Object.fromEntries(
    Object.entries(data)
      .slice(0, MAX_FORMS)
      .filter(([kind, form]) => kind.includes("/") && isShallow(form, MAX_DEPTH)),
  );
}

function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return depth > 0 && Object.values(value).every((inner) => isShallow(inner, depth - 1));
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
