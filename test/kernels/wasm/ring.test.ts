import { expect, test } from "vitest";
import { LineSplitter } from "../../../src/kernels/wasm/deno/lines.ts";
import { Outbox } from "../../../src/kernels/wasm/deno/outbox.ts";
import { createRing, kinds, RingReader, RingWriter } from "../../../src/kernels/wasm/deno/ring.ts";

const encoder = new TextEncoder();

function ring() {
  const shared = createRing();
  let rings = 0;
  const writer = new RingWriter(shared, () => {
    rings += 1;
  });
  return { shared, writer, reader: new RingReader(shared), doorbell: () => rings };
}

test("records come out as they went in, many times around the ring", () => {
  const { writer, reader } = ring();
  for (let i = 0; i < 200; i += 1) {
    const payload = new Uint8Array((i * 7919) % 60_000).fill(i);
    writer.write(kinds.stdout, i, payload);
    const record = reader.read();
    expect(record).toMatchObject({ kind: kinds.stdout, tag: i, last: true });
    // Byte for byte, without comparing objects, which takes a minute.
    expect(Buffer.from(record?.payload ?? []).equals(payload)).toBe(true);
  }
  expect(reader.read()).toBeUndefined();
});

test("a long event is split into records and joined again", () => {
  const { writer, reader } = ring();
  const event = { type: "display", data: { "text/plain": "x".repeat(500_000) } };
  writer.write(kinds.event, 7, encoder.encode(JSON.stringify(event)));
  const outbox = new Outbox(reader);
  const first = outbox.take();
  expect(first).toEqual({ parcels: [], more: true });
  expect(valuesOf(outbox)).toEqual([{ type: "event", id: 7, value: event }]);
});

test("small pieces of one stream leave as one, in order with the other", () => {
  const { writer, reader } = ring();
  for (const text of ["a", "b"]) writer.write(kinds.stdout, 1, encoder.encode(text));
  writer.write(kinds.stderr, 1, encoder.encode("c"));
  writer.write(kinds.stdout, 2, encoder.encode("d"));
  expect(valuesOf(new Outbox(reader))).toEqual([
    { type: "stdout", id: 1, value: "ab" },
    { type: "stderr", id: 1, value: "c" },
    { type: "stdout", id: 2, value: "d" },
  ]);
});

function valuesOf(outbox: Outbox) {
  const { parcels } = outbox.take();
  return parcels.map(({ type, id, json }) => ({ type, id, value: JSON.parse(new TextDecoder().decode(json)) }));
}

test("an event of several lines, which would be several frames, is garbage", () => {
  const { writer, reader } = ring();
  writer.write(kinds.event, 1, encoder.encode('{}\nnonce pulse 0 {"alive":true}'));
  expect(() => new Outbox(reader).take()).toThrow("more than one line");
});

test("a sleeping reader is woken by anything, a dozing one by events only", () => {
  const { writer, reader, doorbell } = ring();
  expect(reader.sleep()).toBe(true);
  writer.write(kinds.stdout, 1, encoder.encode("a"));
  writer.write(kinds.stdout, 1, encoder.encode("b"));
  expect(doorbell()).toBe(1);
  expect(reader.sleep()).toBe(false);
  expect(reader.doze()).toBe(true);
  writer.write(kinds.stdout, 1, encoder.encode("c"));
  expect(doorbell()).toBe(1);
  writer.write(kinds.event, 1, encoder.encode("{}"));
  expect(doorbell()).toBe(2);
  expect(reader.doze()).toBe(false);
});

test.each([
  ["counters that are out of step", 0, 3],
  ["a record longer than the ring", 16, 1 << 24],
  ["a negative length", 16, -1],
])("%s are garbage, and said to be", (_name, word, value) => {
  const { shared, writer, reader } = ring();
  writer.write(kinds.stdout, 1, encoder.encode("abc"));
  new Int32Array(shared)[word] = value;
  expect(() => reader.read()).toThrow();
});

test("lines and characters may be split anywhere, and a line has a limit", () => {
  const splitter = new LineSplitter(10);
  const bytes = encoder.encode("é🙂\nab\n");
  const lines = [...bytes].flatMap((byte) => splitter.push(new Uint8Array([byte])));
  expect(lines).toEqual(["é🙂", "ab"]);
  expect(() => splitter.push(encoder.encode("x".repeat(11)))).toThrow("longer than 10");
});
