import { isRecord } from "../../checked-event.ts";
import {
  type ChannelName,
  decodeParts,
  headerOf,
  type JupyterMessage,
  MAX_LARGE_BYTES,
  parseObject,
} from "../../protocol/message.ts";

/** The subprotocol that keeps a message's parts separate. Servers without it send one JSON text per message. */
export const V1 = "v1.kernel.websocket.jupyter.org";

/** Worst case: JSON in JSON, with each non-ASCII character as `\uXXXX`. */
export const MAX_FRAME_BYTES = 4 * MAX_LARGE_BYTES;

const NUMBER_BYTES = 8;
const SHORT_NUMBER_BYTES = 4;
/** Channel, header, parent, metadata, content. */
const PARTS = 5;
const MAX_PARTS = 1_000;

/** Encodes a message as one WebSocket frame. */
export function encodeMessage(message: JupyterMessage, protocol: string): string | Buffer {
  return protocol === V1 ? encodeV1(message) : encodeJson(message);
}

/** Undefined if it is not a message. User code can send anything. */
export function decodeMessage(frame: Buffer, isBinary: boolean, protocol: string): JupyterMessage | undefined {
  if (protocol === V1) return isBinary ? decodeV1(frame) : undefined;
  return decodeJson(frame, isBinary);
}

/** `[u64 count][u64 offset]*`, little-endian, then the parts; the last offset is the end. */
function encodeV1({ channel, header, parent, metadata, content, buffers }: JupyterMessage): Buffer {
  const parts = [
    Buffer.from(channel),
    ...[header, parent, metadata, content].map((part) => Buffer.from(JSON.stringify(part))),
    ...buffers,
  ];
  const count = parts.length + 1;
  const head = Buffer.alloc(NUMBER_BYTES * (1 + count));
  head.writeBigUInt64LE(BigInt(count));
  let offset = head.length;
  for (let index = 0; index < count; index += 1) {
    head.writeBigUInt64LE(BigInt(offset), NUMBER_BYTES * (1 + index));
    offset += parts[index]?.length ?? 0;
  }
  return Buffer.concat([head, ...parts]);
}

function decodeV1(frame: Buffer): JupyterMessage | undefined {
  if (frame.length < NUMBER_BYTES) return undefined;
  const count = Number(frame.readBigUInt64LE());
  if (count < PARTS + 1 || count > MAX_PARTS || frame.length < NUMBER_BYTES * (1 + count)) return undefined;
  const offsets = Array.from({ length: count }, (_, index) =>
    Number(frame.readBigUInt64LE(NUMBER_BYTES * (1 + index))),
  );
  const [channel, ...parts] = slices(frame, offsets);
  const name = channel?.toString();
  return isChannel(name) ? decodeParts(name, parts.slice(0, PARTS - 1), parts.slice(PARTS - 1)) : undefined;
}

/** Without buffers one JSON text; with them `[u32 count][u32 offset]*`, big-endian, then that text and the buffers. */
function encodeJson({ parent, buffers, ...message }: JupyterMessage): string | Buffer {
  const text = JSON.stringify({ ...message, parent_header: parent, buffers: [] });
  if (buffers.length === 0) return text;
  const parts = [Buffer.from(text), ...buffers];
  const head = Buffer.alloc(SHORT_NUMBER_BYTES * (1 + parts.length));
  head.writeUInt32BE(parts.length);
  let offset = head.length;
  for (const [index, part] of parts.entries()) {
    head.writeUInt32BE(offset, SHORT_NUMBER_BYTES * (1 + index));
    offset += part.length;
  }
  return Buffer.concat([head, ...parts]);
}

function decodeJson(frame: Buffer, isBinary: boolean): JupyterMessage | undefined {
  const [text, ...buffers] = isBinary ? jsonParts(frame) : [frame];
  const message = parseObject(text, MAX_FRAME_BYTES);
  if (!message) return undefined;
  const { channel, parent_header: parent = {}, metadata = {}, content = {} } = message;
  const header = isRecord(message.header) ? headerOf(message.header) : undefined;
  if (!isChannel(channel) || !header || !isRecord(parent) || !isRecord(metadata) || !isRecord(content))
    return undefined;
  return { channel, header, parent, metadata, content, buffers };
}

function jsonParts(frame: Buffer): Buffer[] {
  if (frame.length < SHORT_NUMBER_BYTES) return [];
  const count = frame.readUInt32BE();
  if (count < 1 || count > MAX_PARTS || frame.length < SHORT_NUMBER_BYTES * (1 + count)) return [];
  const offsets = Array.from({ length: count }, (_, index) => frame.readUInt32BE(SHORT_NUMBER_BYTES * (1 + index)));
  return slices(frame, [...offsets, frame.length]);
}

function isChannel(name: unknown): name is ChannelName {
  return name === "shell" || name === "control" || name === "stdin" || name === "iopub";
}

function slices(frame: Buffer, offsets: number[]): Buffer[] {
  return offsets.slice(0, -1).map((start, index) => frame.subarray(start, offsets[index + 1]));
}
