import { type Readable, Writable } from "node:stream";
import { type JSONRPCMessage, parseJSONRPCMessage, type RequestId, type Transport } from "@modelcontextprotocol/server";
import { MessageError, parseMessage } from "./json.ts";

const NEWLINE = 0x0a;

/** Bytes kept of each end of a message that is too long, to find its id. */
const KEPT_OF_LONG_BYTES = 256;

/**
 * Grace period at the end of input for requests that are still unanswered: `echo … | cellwright` is how people try a
 * server. Long enough for a start, short enough for a client that waits for the exit.
 */
const LAST_ANSWERS_MS = 500;

/**
 * Newline-delimited messages on two streams. Unlike the SDK's transport it reads long lines in linear time, answers an
 * invalid message with an error instead of dropping it, and survives a line that is too long.
 */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /** Resolves when the client is gone or the transport was closed. */
  readonly closed: Promise<void>;
  #resolveClosed!: () => void;
  readonly #input: Readable;
  readonly #output: Writable;
  readonly #maxBytes: number;
  #line: Buffer[] = [];
  #lineBytes = 0;
  readonly #unanswered = new Set<RequestId>();
  #ending: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(streams: { input: Readable; output: Writable }, { maxBytes }: { maxBytes: number }) {
    this.#input = streams.input;
    this.#output = streams.output;
    this.#maxBytes = maxBytes;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
  }

  async start(): Promise<void> {
    this.#input.on("data", this.#read);
    this.#input.on("end", this.#end);
    this.#input.on("close", this.#end);
    this.#input.on("error", this.#fail);
    this.#output.on("error", this.#fail);
    if (this.#input.readableEnded || this.#input.destroyed) setImmediate(this.#end);
  }

  send(message: JSONRPCMessage): Promise<void> {
    if (this.#closed) return Promise.reject(new Error("the client is gone"));
    return new Promise((resolve, reject) => {
      this.#output.write(`${JSON.stringify(message)}\n`, (error) => {
        if (!("method" in message) && message.id !== undefined) this.#unanswered.delete(message.id);
        if (this.#ending) this.#end();
        if (error) reject(error);
        else resolve();
      });
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#ending);
    this.#input.off("data", this.#read);
    this.#input.pause();
    this.#line = [];
    // The error listeners stay: a pending write may still fail, and an unhandled error would end the process.
    this.onclose?.();
    this.#resolveClosed();
  }

  #end = (): void => {
    if (this.#unanswered.size === 0) void this.close();
    else this.#ending ??= setTimeout(() => void this.close(), LAST_ANSWERS_MS);
  };

  #fail = (error: Error): void => {
    if (this.#closed) return;
    this.onerror?.(error);
    void this.close();
  };

  #read = (chunk: Buffer): void => {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0 && !this.#closed; end = chunk.indexOf(NEWLINE, start)) {
      this.#keep(chunk.subarray(start, end));
      this.#finishLine();
      start = end + 1;
    }
    this.#keep(chunk.subarray(start));
  };

  #keep(piece: Buffer): void {
    if (piece.length === 0) return;
    this.#lineBytes += piece.length;
    this.#line.push(piece);
    if (this.#lineBytes <= this.#maxBytes) return;
    const ends = Buffer.concat(this.#line);
    this.#line = [ends.subarray(0, KEPT_OF_LONG_BYTES), ends.subarray(-KEPT_OF_LONG_BYTES)].map((end) =>
      Buffer.from(end),
    );
  }

  #finishLine(): void {
    const line = Buffer.concat(this.#line);
    const tooLong = this.#lineBytes > this.#maxBytes;
    this.#line = [];
    this.#lineBytes = 0;
    if (tooLong) {
      const mb = Math.floor(this.#maxBytes / 1024 / 1024);
      this.#refuse(new MessageError(-32600, `Invalid request: larger than ${mb} MB`, idIn(line)));
    } else if (line.some((byte) => byte !== 0x20 && byte !== 0x0d && byte !== 0x09)) {
      this.#deliver(line);
    }
  }

  #deliver(line: Buffer): void {
    try {
      const message = readMessage(line);
      if ("method" in message && "id" in message) this.#unanswered.add(message.id);
      // A cancelled request is never answered.
      if ("method" in message && message.method === "notifications/cancelled") {
        this.#unanswered.delete((message.params as { requestId?: RequestId } | undefined)?.requestId ?? "");
      }
      this.onmessage?.(message);
    } catch (error) {
      if (!(error instanceof MessageError)) throw error;
      this.#refuse(error);
    }
  }

  #refuse(error: MessageError): void {
    this.onerror?.(error);
    const answer = { jsonrpc: "2.0", id: error.id, error: { code: error.code, message: error.message } };
    // JSON-RPC requires `id: null` where the id is unknown; the SDK's type does not allow it.
    this.send(answer as JSONRPCMessage).catch(() => {});
  }
}

function readMessage(line: Buffer): JSONRPCMessage {
  const value = parseMessage(line);
  try {
    return parseJSONRPCMessage(value);
  } catch {
    throw new MessageError(-32600, "Invalid request: not a JSON-RPC 2.0 message", idOf(value));
  }
}

function idOf(value: unknown): string | number | null {
  const id = typeof value === "object" && value !== null && "id" in value ? value.id : null;
  return typeof id === "string" || typeof id === "number" ? id : null;
}

/** The id of a message from its two ends: clients write it first or last. */
function idIn(ends: Buffer): string | number | null {
  const text = ends.toString("utf8");
  const id = /"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")\s*\}\s*$|^\s*\{[^{}]*?"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")/.exec(
    text,
  );
  const found = id?.[1] ?? id?.[2];
  return found === undefined ? null : JSON.parse(found);
}

/** Redirects all other output to stderr: one stray line on stdout would break the protocol. */
export function takeStdout(): Writable {
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write;
  const output = new Writable({
    decodeStrings: false,
    write: (text, _encoding, done) => void write(text, done),
  });
  process.stdout.on("error", (error) => output.destroy(error));
  return output;
}
