/** MCP content blocks, without the SDK's types: only src/mcp depends on the SDK. */
export type ContentBlock =
  | { type: "text"; text: string }
  | { type: "image"; data: string; mimeType: string }
  | { type: "resource_link"; uri: string; name: string; mimeType?: string; size?: number }
  | { type: "resource"; resource: { uri: string; mimeType: string } & ({ blob: string } | { text: string }) };

export interface ToolResult {
  content: ContentBlock[];
  structuredContent?: Record<string, unknown>;
  isError?: boolean;
  _meta?: Record<string, unknown>;
  [key: string]: unknown;
}

/** Limit of a whole reply, in bytes of its JSON. Claude Desktop refuses more than 1 048 576 characters. */
export const MAX_REPLY_BYTES = 1_000_000;

/** The reply with the largest text budget that fits, from `maxChars` down. */
export function fitted<Result>(maxChars: number, assemble: (budget: number) => Result): Result {
  for (let budget = maxChars; ; budget = Math.floor(budget * 0.7)) {
    const result = assemble(budget);
    if (budget <= 1_000 || jsonBytes(result) <= MAX_REPLY_BYTES) return result;
  }
}

export function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? "");
}
