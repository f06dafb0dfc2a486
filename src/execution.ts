/** Shared types: what a cell emits while it runs, and the record of it afterwards. */
import type { JsonText } from "./json-text.ts";

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
/** Values to define in a cell's namespace, by name. */
export type Variables = Record<string, Json | Uint8Array | JsonText>;
export type Language = "python" | "bash";

/** One displayed value in several representations, by MIME type: text as is, binary as base64, JSON as values. */
export type MimeBundle = Record<string, unknown>;

/** What a cell shows besides printed text. */
export type Shown =
  | { type: "display"; data: MimeBundle; displayId?: string }
  | { type: "result"; data: MimeBundle }
  | { type: "error"; name: string; message: string; traceback: string[] };

/**
 * What a kernel reports while it runs one cell. `done` comes exactly once, as the last event; its `raw` is the backend's
 * own response, for callers that know that backend.
 */
export type ExecutionEvent =
  | { type: "stream"; name: "stdout" | "stderr"; text: string }
  | Shown
  | { type: "update"; data: MimeBundle; displayId: string }
  | { type: "clear"; wait: boolean }
  | { type: "done"; status: "ok" | "error"; executionCount: number | null; raw?: unknown };

export type ExecutionStatus = "running" | "ok" | "error" | "timeout" | "interrupted" | "kernel_died";

/** What a cell displayed, after streams are joined and updates and clears applied. */
export type Output = { type: "stream"; name: "stdout" | "stderr"; text: string; cut?: Cut } | Shown;

/** Characters missing from the middle of a text; `full` is the URI of the whole text, as far as it was kept. */
export interface Cut {
  at: number;
  chars: number;
  full?: string;
}

export interface FileChange {
  path: string;
  change: "created" | "modified" | "deleted";
  sizeBytes: number;
  mimeType: string;
}

/** One run of a cell. `notices` are Cellwright's remarks: what was lost or left out, and why. */
export interface Execution {
  id: string;
  code: string;
  language: Language;
  status: ExecutionStatus;
  executionCount: number | null;
  outputs: Output[];
  files: FileChange[];
  notices: string[];
  startedAt: string;
  durationMs: number;
}

/** Approximate size of an event or output in memory. */
export function charsOf(event: ExecutionEvent | Output): number {
  if (event.type === "stream") return event.text.length;
  if (event.type === "error") return event.name.length + event.message.length + jsonChars(event.traceback);
  return "data" in event ? jsonChars(event.data) : PIECE_CHARS;
}

/** Overhead of an object, a number or a key. */
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
