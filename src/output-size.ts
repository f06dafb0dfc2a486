import type { ExecutionEvent, Output } from "./execution.ts";

/** What an event, or what is kept of it, takes in memory, near enough. */
export function charsOf(event: ExecutionEvent | Output): number {
  if (event.type === "stream") return event.text.length;
  if (event.type === "error") return event.name.length + event.message.length + jsonChars(event.traceback);
  return "data" in event ? jsonChars(event.data) : PIECE_CHARS;
}

/** What an empty object, a number or a key costs besides its text. */
const PIECE_CHARS = 32;

function jsonChars(value: unknown): number {
  if (typeof value === "string") return value.length + PIECE_CHARS;
  if (typeof value !== "object" || value === null) return PIECE_CHARS;
  let chars = PIECE_CHARS;
  if (Array.isArray(value)) {
    for (const inner of value) chars += jsonChars(inner);
    return chars;
  }
  for (const [key, inner] of Object.entries(value)) chars += key.length + jsonChars(inner);
  return chars;
}
