/** How deep a request may nest. Real ones stay below 20; far more would overflow the stack of whoever walks them. */
const MAX_DEPTH = 200;

/** Why a message is refused before anybody looks at its meaning, with its code of JSON-RPC. */
export class MessageError extends Error {
  override name = "MessageError";
  readonly code: -32700 | -32600;
  /** The message's own id, where it could be read. */
  readonly id: string | number | null;

  constructor(code: MessageError["code"], message: string, id: string | number | null = null) {
    super(message);
    this.code = code;
    this.id = id;
  }
}

/** Bytes of a message to its value. A BOM is skipped; broken UTF-8, broken JSON and deep nesting are refused. */
export function parseMessage(bytes: Uint8Array): unknown {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new MessageError(-32700, "Parse error: not valid JSON in UTF-8");
  }
  if (isDeeperThan(value, MAX_DEPTH)) {
    throw new MessageError(-32600, `Invalid request: nested deeper than ${MAX_DEPTH} levels`);
  }
  return value;
}

function isDeeperThan(value: unknown, maxDepth: number): boolean {
  let level = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > maxDepth) return true;
    const next: unknown[] = [];
    for (const parent of level) {
      if (typeof parent !== "object" || parent === null) continue;
      for (const child of Object.values(parent)) if (typeof child === "object" && child !== null) next.push(child);
    }
    level = next;
  }
  return false;
}
