/** The words every part shares: what a cell shows while it runs, and what is left when it is over. */
import type { JsonText } from "./json-text.ts";

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
/** Values that a cell finds in its namespace, by name. */
export type Variables = Record<string, Json | Uint8Array | JsonText>;
export type Language = "python" | "bash";

/** One thing shown, in several forms by MIME type: text as is, binary as base64, JSON as values. */
export type MimeBundle = Record<string, unknown>;

/** What a kernel says while it runs one cell. The last event is always `done`, and it comes once. */
export type ExecutionEvent =
  | { type: "stream"; name: "stdout" | "stderr"; text: string }
  | { type: "display"; data: MimeBundle; displayId?: string }
  | { type: "update"; data: MimeBundle; displayId: string }
  | { type: "clear"; wait: boolean }
  | { type: "result"; data: MimeBundle }
  | { type: "error"; name: string; message: string; traceback: string[] }
  | { type: "done"; status: "ok" | "error"; executionCount: number | null; answer?: SandboxAnswer };

/** How a cell ended in the words of the sandbox that it was sent to, by its name in a pool. */
export type SandboxAnswer = { place: string } & ({ reply: SandboxReply } | { failure: SandboxFault });

export interface SandboxReply {
  status: "success" | "error";
  /** How long the cell ran, in seconds. */
  execution_time?: number | undefined;
  error?: string | undefined;
  output: {
    stdout: string;
    stderr: string;
    /** PNG in base64. */
    images: string[];
    /** The last expression as text. */
    result?: string | undefined;
  };
}

/** A header of a sandbox that ends before it has run a cell: another one can run it. */
export const NOT_RUN_HEADER = "cellwright-not-run";

/** What came instead of a reply. Only a refusal, or that header, leaves no doubt that nothing was run. */
export type SandboxFault =
  | { kind: "http"; status: number; reason: string; url: string; said?: string | undefined }
  | { kind: "timeout" }
  | { kind: "disconnected" }
  | { kind: "malformed"; text: string };

export type ExecutionStatus = "running" | "ok" | "error" | "timeout" | "interrupted" | "kernel_died";

/** What a cell showed, after streams are joined and updates and clears applied. */
export type Output =
  | { type: "stream"; name: "stdout" | "stderr"; text: string; cut?: Cut }
  | { type: "display"; data: MimeBundle; displayId?: string }
  | { type: "result"; data: MimeBundle }
  | { type: "error"; name: string; message: string; traceback: string[] };

/** Characters missing from the middle of a text; `full` is the URI of the whole of it, as far as that was kept. */
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

/** One run of a cell. `notices` are our own sentences about it: what was lost, what was left out, and why. */
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
