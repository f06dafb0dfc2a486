import type { ExecutionEvent, MimeBundle } from "../../execution.ts";
import type { JupyterMessage } from "./message.ts";

/** What an iopub message shows, checked: user code can send anything. Undefined: nothing. */
export function eventOf(message: JupyterMessage): ExecutionEvent | undefined {
  const { content } = message;
  switch (message.header.msg_type) {
    case "stream": {
      const { name, text } = content;
      if ((name !== "stdout" && name !== "stderr") || typeof text !== "string") return undefined;
      return { type: "stream", name, text };
    }
    case "display_data": {
      const data = bundle(content.data);
      const displayId = displayIdOf(content);
      return data && { type: "display", data, ...(displayId !== undefined && { displayId }) };
    }
    case "update_display_data": {
      const data = bundle(content.data);
      const displayId = displayIdOf(content);
      return data && displayId !== undefined ? { type: "update", data, displayId } : undefined;
    }
    case "execute_result": {
      const data = bundle(content.data);
      return data && { type: "result", data };
    }
    case "clear_output":
      return { type: "clear", wait: content.wait === true };
    case "error":
      return errorOf(content);
    default:
      return undefined;
  }
}

/** What IPython shows in a pager, for `name?` and `%magic`: it comes with the reply. */
export function pageEvents(reply: Record<string, unknown>): ExecutionEvent[] {
  const { payload } = reply;
  if (!Array.isArray(payload)) return [];
  return payload.flatMap((item: unknown) => {
    const data = isRecord(item) && item.source === "page" ? bundle(item.data) : undefined;
    return data ? [{ type: "display" as const, data }] : [];
  });
}

const MAX_NAME_CHARS = 1_000;
const MAX_MESSAGE_CHARS = 100_000;
const MAX_LINES = 1_000;
const MAX_LINE_CHARS = 10_000;

function errorOf({ ename, evalue, traceback }: Record<string, unknown>): ExecutionEvent | undefined {
  if (typeof ename !== "string" || typeof evalue !== "string" || !Array.isArray(traceback)) return undefined;
  const lines = traceback.slice(0, MAX_LINES).filter((line) => typeof line === "string");
  return {
    type: "error",
    name: ename.slice(0, MAX_NAME_CHARS),
    message: evalue.slice(0, MAX_MESSAGE_CHARS),
    traceback: lines.map((line) => line.slice(0, MAX_LINE_CHARS)),
  };
}

function displayIdOf({ transient }: Record<string, unknown>): string | undefined {
  return isRecord(transient) && typeof transient.display_id === "string" ? transient.display_id : undefined;
}

/** Deeper JSON is of no use to anybody, and everything that walks it would overflow its stack. */
const MAX_DEPTH = 100;

/** Forms of one thing that are looked at; real ones have a handful. */
const MAX_FORMS = 50;

/** As prelude/mime.py has it, in our way of counting: a character beyond the first 65 536 is two. */
const MAX_BUNDLE_CHARS = 2 * 8 * 1024 * 1024;

/** Only keys that are MIME types, which `__proto__` is not, and only forms that can be walked. */
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
