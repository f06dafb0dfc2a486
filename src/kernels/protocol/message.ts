import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";

/** The Jupyter messaging protocol: https://jupyter-client.readthedocs.io/en/stable/messaging.html */

export type ChannelName = "shell" | "control" | "stdin" | "iopub";

export interface MessageHeader {
  msg_id: string;
  msg_type: string;
  /** The client's id, not the Cellwright session's. */
  session: string;
  username: string;
  date: string;
  version: string;
}

export interface JupyterMessage {
  channel: ChannelName;
  header: MessageHeader;
  /** The header of the request that this answers; empty if there was no request. */
  parent: Partial<MessageHeader>;
  metadata: Record<string, unknown>;
  content: Record<string, unknown>;
  buffers: Uint8Array[];
}

export interface MessageOptions {
  session: string;
  parent?: Partial<MessageHeader>;
  metadata?: Record<string, unknown>;
  buffers?: Uint8Array[];
}

/** The version we send. Kernels support 5.3 or later, which do not differ for our requests. */
const PROTOCOL_VERSION = "5.3";
const DELIMITER = Buffer.from("<IDS|MSG>");
/** Header, parent, metadata and content are signed, and follow the signature in this order. */
const SIGNED_PARTS = 4;

export function createMessage(
  channel: ChannelName,
  type: string,
  content: Record<string, unknown>,
  options: MessageOptions,
): JupyterMessage {
  return {
    channel,
    header: {
      msg_id: randomUUID(),
      msg_type: type,
      session: options.session,
      username: "cellwright",
      date: new Date().toISOString(),
      version: PROTOCOL_VERSION,
    },
    parent: options.parent ?? {},
    metadata: options.metadata ?? {},
    content,
    buffers: options.buffers ?? [],
  };
}

/** The message as ZeroMQ frames, signed. */
export function encodeFrames(message: JupyterMessage, key: string): Uint8Array[] {
  const parts = [message.header, message.parent, message.metadata, message.content].map((part) =>
    Buffer.from(JSON.stringify(part)),
  );
  return [DELIMITER, Buffer.from(sign(parts, key)), ...parts, ...message.buffers];
}

/** Undefined if it is not a message, or not signed with this key. User code can send anything. */
export function decodeFrames(channel: ChannelName, frames: Uint8Array[], key: string): JupyterMessage | undefined {
  const found = partsOf(frames);
  if (!found || !isSigned(found.parts, found.signature, key)) return undefined;
  return decodeParts(channel, found.parts, found.buffers);
}

/** The parent header, without parsing the content or checking the signature. Undefined if it is not a message. */
export function parentOf(frames: Uint8Array[]): Partial<MessageHeader> | undefined {
  return parseObject(partsOf(frames)?.parts[1], MAX_PARENT_BYTES);
}

function partsOf(frames: Uint8Array[]) {
  const delimiter = frames.findIndex((frame) => DELIMITER.equals(frame));
  if (delimiter === -1) return undefined;
  const signature = frames[delimiter + 1];
  const parts = frames.slice(delimiter + 2, delimiter + 2 + SIGNED_PARTS);
  if (!signature || parts.length < SIGNED_PARTS) return undefined;
  return { signature, parts, buffers: frames.slice(delimiter + 2 + SIGNED_PARTS) };
}

/** Parses header, parent, metadata and content from JSON. Undefined if they are not a message. */
export function decodeParts(
  channel: ChannelName,
  parts: Uint8Array[],
  buffers: Uint8Array[],
): JupyterMessage | undefined {
  const [first, parent, metadata] = parts.slice(0, 3).map((part) => parseObject(part, MAX_SMALL_BYTES));
  const header = headerOf(first);
  if (!header) return undefined;
  const content = parseObject(parts[3], maxContentBytes.get(header.msg_type) ?? MAX_SMALL_BYTES);
  if (!parent || !metadata || !content) return undefined;
  return { channel, header, parent, metadata, content, buffers };
}

/** Undefined without id or type. The other fields are not checked and must not be relied on. */
export function headerOf(value: object | undefined): MessageHeader | undefined {
  const header = value as Partial<MessageHeader> | undefined;
  const isNamed = typeof header?.msg_id === "string" && typeof header.msg_type === "string";
  return isNamed ? (header as MessageHeader) : undefined;
}

function sign(parts: Uint8Array[], key: string): string {
  const hmac = createHmac("sha256", key);
  for (const part of parts) hmac.update(part);
  return hmac.digest("hex");
}

function isSigned(parts: Uint8Array[], signature: Uint8Array, key: string): boolean {
  const expected = Buffer.from(sign(parts, key));
  return signature.length === expected.length && timingSafeEqual(signature, expected);
}

/** A header is a few ids and a date. */
const MAX_PARENT_BYTES = 16_000;
/** For all other messages, which are short: text arrives in pieces. */
const MAX_SMALL_BYTES = 1_000_000;
/** For the answer to `inspect`. */
const MAX_ANSWER_BYTES = 8_000_000;
/** A display has at most 8 million characters (see prelude/mime.py), rarely more bytes than this. */
export const MAX_LARGE_BYTES = 34_000_000;
const maxContentBytes: ReadonlyMap<string, number> = new Map([
  ...["display_data", "update_display_data", "execute_result", "error", "execute_reply", "execute_input"].map(
    (kind): [string, number] => [kind, MAX_LARGE_BYTES],
  ),
  ["cellwright_reply", MAX_ANSWER_BYTES],
]);
/** Large displays have fewer values; more are an attack on our memory. */
const MAX_VALUES = 4_500_000;
/** Deeper JSON has no use, and costs far more than its length. */
const MAX_DEPTH = 1_000;
/** Shorter JSON is harmless. */
const MIN_HARMFUL_BYTES = 100_000;

/** Parses a JSON object. Undefined if it is invalid, too long, or would take far more memory than its length. */
export function parseObject(part: Uint8Array | undefined, maxBytes: number): Record<string, unknown> | undefined {
  if (!part || part.length > maxBytes) return undefined;
  if (part.length >= MIN_HARMFUL_BYTES && isHarmful(part)) return undefined;
  try {
    const value: unknown = JSON.parse(Buffer.from(part.buffer, part.byteOffset, part.length).toString());
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Whether parsed JSON takes far more memory than its length: `{}` is two bytes, but an object is many. */
function isHarmful(json: Uint8Array): boolean {
  let values = 0;
  let depth = 0;
  for (let at = 0; at < json.length; ) {
    const quote = json.indexOf(QUOTE, at);
    const end = quote === -1 ? json.length : quote;
    for (; at < end; at += 1) {
      const byte = json[at];
      if (byte === COMMA) values += 1;
      else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
        values += 1;
        depth += 1;
        if (depth > MAX_DEPTH) return true;
      } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth -= 1;
    }
    if (values > MAX_VALUES) return true;
    if (quote !== -1) at = afterString(json, quote + 1);
  }
  return false;
}

/** The index after the closing quotation mark. */
function afterString(json: Uint8Array, start: number): number {
  for (let at = start; ; ) {
    const quote = json.indexOf(QUOTE, at);
    if (quote === -1) return json.length;
    let backslashes = 0;
    while (quote - backslashes > start && json[quote - backslashes - 1] === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}
