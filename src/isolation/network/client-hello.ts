/** What the first bytes of a connection reveal about its destination. */
export type Greeting =
  | { kind: "incomplete" }
  | { kind: "other" }
  /** TLS; without a name if the client sent none (SNI). */
  | { kind: "tls"; serverName?: string };

const HANDSHAKE = 22;
const CLIENT_HELLO = 1;
const SERVER_NAME = 0;
/** Longer data is not a greeting; those of browsers have about 2 kB. */
const MAX_BYTES = 64 * 1024;

/** Reads the server name (SNI) from a TLS ClientHello, which may span several records. */
export function readGreeting(bytes: Uint8Array): Greeting {
  if (bytes.length === 0) return { kind: "incomplete" };
  if (bytes[0] !== HANDSHAKE) return { kind: "other" };
  if (bytes.length > MAX_BYTES) return { kind: "other" };
  const message = joinRecords(bytes);
  if (message === undefined) return { kind: "other" };
  if (message.length < 4) return { kind: "incomplete" };
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  if (view.getUint8(0) !== CLIENT_HELLO) return { kind: "other" };
  const length = view.getUint32(0) & 0xff_ffff;
  if (length > MAX_BYTES) return { kind: "other" };
  if (message.length < 4 + length) return { kind: "incomplete" };
  try {
    const serverName = findServerName(new DataView(message.buffer, message.byteOffset + 4, length));
    return serverName === undefined ? { kind: "tls" } : { kind: "tls", serverName };
  } catch {
    // Lengths that point outside of the message.
    return { kind: "other" };
  }
}

function joinRecords(bytes: Uint8Array): Uint8Array | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const parts: Uint8Array[] = [];
  for (let at = 0; at + 5 <= bytes.length; ) {
    if (view.getUint8(at) !== HANDSHAKE) return undefined;
    const end = at + 5 + view.getUint16(at + 3);
    parts.push(bytes.subarray(at + 5, Math.min(end, bytes.length)));
    at = end;
  }
  return Buffer.concat(parts);
}

function findServerName(hello: DataView): string | undefined {
  let at = 34; // version and random
  at += 1 + hello.getUint8(at); // session id
  at += 2 + hello.getUint16(at); // cipher suites
  at += 1 + hello.getUint8(at); // compression methods
  if (at === hello.byteLength) return undefined;
  const end = at + 2 + hello.getUint16(at);
  at += 2;
  const names: string[] = [];
  while (at + 4 <= end) {
    const [type, length] = [hello.getUint16(at), hello.getUint16(at + 2)];
    if (type === SERVER_NAME) names.push(...namesIn(new DataView(hello.buffer, hello.byteOffset + at + 4, length)));
    at += 4 + length;
  }
  // The standard forbids several names, and servers differ in which one they use: refused.
  return names.length === 0 ? undefined : names.join(" ");
}

/** Layout: the list's length, then per entry type, length and name. */
function namesIn(list: DataView): string[] {
  const names: string[] = [];
  for (let at = 2; at < list.byteLength; ) {
    const length = list.getUint16(at + 1);
    const name = new Uint8Array(list.buffer, list.byteOffset + at + 3, length);
    names.push(Buffer.from(name).toString("latin1").toLowerCase());
    at += 3 + length;
  }
  return names;
}
