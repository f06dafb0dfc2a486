/** Nesting limit of a request. Real ones stay below 20; far deeper ones would overflow the stack of recursive code. */
const MAX_DEPTH = 200;

/** Limit of values in one request. `[[],[],…` takes ten times its size in memory once parsed; text does not. */
const MAX_VALUES = 5_000_000;

/** Why a message cannot be parsed, with the JSON-RPC error code. */
export class MessageError extends Error {
  override name = "MessageError";
  readonly code: -32700 | -32600;
  /** The message's id, if it could be read. */
  readonly id: string | number | null;

  constructor(code: MessageError["code"], message: string, id: string | number | null = null) {
    super(message);
    this.code = code;
    this.id = id;
  }
}

/** Parses a message. A BOM is skipped; invalid UTF-8, invalid JSON, and too deep or too many values are refused. */
export function parseMessage(bytes: Uint8Array): unknown {
  checkShape(bytes);
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new MessageError(-32700, "Parse error: not valid JSON in UTF-8");
  }
}

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPEN_LIST, OPEN_OBJECT, CLOSE_LIST, CLOSE_OBJECT] = [0x5b, 0x7b, 0x5d, 0x7d];

/** Counts depth and values in the raw bytes, before parsing. For invalid JSON the result does not matter. */
function checkShape(bytes: Uint8Array): void {
  let depth = 0;
  let values = 1;
  let inText = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (inText) {
      if (byte === BACKSLASH) at += 1;
      else if (byte === QUOTE) inText = false;
    } else if (byte === QUOTE) {
      inText = true;
    } else if (byte === COMMA) {
      values += 1;
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      depth += 1;
      values += 1;
      if (depth > MAX_DEPTH) throw new MessageError(-32600, `Invalid request: nested deeper than ${MAX_DEPTH} levels`);
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
      depth -= 1;
    }
  }
  if (values > MAX_VALUES) throw new MessageError(-32600, `Invalid request: more than ${MAX_VALUES} values`);
}
