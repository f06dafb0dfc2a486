import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { ZmtpSocket } from "../../../src/kernels/protocol/zmtp.ts";

const MAX_BYTES = 20_000;
const folder = mkdtempSync(join(tmpdir(), "cw-zmtp-"));
const path = join(folder, "kernel");
let server: Server;

beforeAll(async () => {
  server = createServer();
  await new Promise<void>((resolve) => server.listen(path, resolve));
});
afterAll(() => {
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

const greeting = Buffer.concat([Buffer.from([0xff]), Buffer.alloc(8), Buffer.from([0x7f, 3, 0]), Buffer.from("NULL")]);
const handshake = Buffer.concat([
  greeting,
  Buffer.alloc(64 - greeting.length),
  Buffer.from([4, 6, 5]),
  Buffer.from("READY"),
]);

/** As specified; a long header is allowed for a short frame, too. */
function encode(frames: { body: Uint8Array; isLong: boolean }[]): Buffer {
  return Buffer.concat(
    frames.flatMap(({ body, isLong }, index) => {
      const more = index < frames.length - 1 ? 1 : 0;
      if (!isLong && body.length < 256) return [Buffer.from([more, body.length]), body];
      const length = Buffer.alloc(8);
      length.writeBigUInt64BE(BigInt(body.length));
      return [Buffer.from([more | 2]), length, body];
    }),
  );
}

/** What a client receives from these pieces, if nothing more arrives. */
async function receive(pieces: Uint8Array[]): Promise<{ messages: Buffer[][]; broken: string[] }> {
  const messages: Buffer[][] = [];
  const broken: string[] = [];
  const connected = once(server, "connection") as Promise<[Socket]>;
  const client = new ZmtpSocket({
    ...{ path, kind: "DEALER", maxMessageBytes: MAX_BYTES },
    onMessage: (frames) => messages.push(frames.map((frame) => Buffer.from(frame))),
    onBroken: (reason) => broken.push(reason),
  });
  const [socket] = await connected;
  socket.on("error", () => {}).resume();
  const left = new Promise((resolve) => socket.once("close", resolve));
  // One at a time, so that each arrives as a separate piece.
  for (const piece of pieces) await new Promise<void>((resolve) => socket.write(piece, () => setImmediate(resolve)));
  socket.end();
  await left;
  client.close();
  return { messages, broken };
}

function cut(bytes: Buffer, places: number[]): Buffer[] {
  const ends = [...places.map((place) => place % bytes.length), bytes.length].sort((a, b) => a - b);
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end)).filter((piece) => piece.length > 0);
}

const frame = fc.record({
  body: fc.oneof(
    { weight: 4, arbitrary: fc.uint8Array({ maxLength: 40 }) },
    fc.uint8Array({ minLength: 250, maxLength: 600 }),
  ),
  isLong: fc.boolean(),
});
const message = fc.array(frame, { minLength: 1, maxLength: 6 });
const places = fc.array(fc.nat(10_000), { maxLength: 8 });

test("messages come out as they went in, wherever the stream is cut", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(message, { maxLength: 5 }), places, async (sent, at) => {
      const bytes = Buffer.concat([handshake, ...sent.map(encode)]);
      const { messages, broken } = await receive(cut(bytes, at));
      expect(broken).toEqual([]);
      expect(messages).toEqual(sent.map((frames) => frames.map(({ body }) => Buffer.from(body))));
    }),
    { numRuns: 150 },
  );
});

const REASONS =
  /^it (does not speak ZeroMQ's protocol|refused the connection|did not say that it is ready|sent a message of more than \d+ MB)$/;

test("any bytes are messages within their bound, or break the connection once, with a reason", async () => {
  const allocate = vi.spyOn(Buffer, "allocUnsafe");
  const beginning = fc.constantFrom(Buffer.alloc(0), handshake.subarray(0, 64), handshake);
  const rest = fc.oneof(
    fc.uint8Array({ maxLength: 500 }),
    // A header that announces any length.
    fc
      .tuple(fc.nat(7), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), fc.uint8Array({ maxLength: 50 }))
      .map(([flags, size, body]) => {
        const head = Buffer.alloc(9);
        head[0] = flags | 2;
        head.writeBigUInt64BE(size, 1);
        return Buffer.concat([head, body]);
      }),
  );
  await fc.assert(
    fc.asyncProperty(beginning, rest, places, async (start, more, at) => {
      allocate.mockClear();
      const bytes = Buffer.concat([start, more]);
      const { messages, broken } = await receive(bytes.length > 0 ? cut(bytes, at) : []);
      for (const frames of messages) expect(Buffer.concat(frames).length).toBeLessThanOrEqual(bytes.length);
      expect(broken.length).toBeLessThanOrEqual(1);
      for (const reason of broken) expect(reason).toMatch(REASONS);
      for (const [size] of allocate.mock.calls) expect(size).toBeLessThanOrEqual(MAX_BYTES);
    }),
    { numRuns: 150 },
  );
  allocate.mockRestore();
});
