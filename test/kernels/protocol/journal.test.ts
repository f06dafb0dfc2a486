import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readJournal } from "../../../src/kernels/protocol/journal.ts";
import { createMessage, encodeFrames } from "../../../src/kernels/protocol/message.ts";
import { readNewestCell } from "../../../src/kernels/protocol/newest-cell.ts";
import { temporaryFolder } from "../local/forked-kernels.ts";

const key = "key";

function record(frames: Uint8Array[]): Buffer {
  const parts = frames.flatMap((frame) => [number(frame.length), frame]);
  return Buffer.concat([number(frames.length), ...parts]);
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function shown(type: string, content: Record<string, unknown>, cell = "cell", signedWith = key): Buffer {
  const message = createMessage("iopub", type, content, { session: "s", parent: { msg_id: cell } });
  return record([Buffer.from("topic"), ...encodeFrames(message, signedWith)]);
}

const printed = (text: string, cell?: string, signedWith?: string) =>
  shown("stream", { name: "stdout", text }, cell, signedWith);

function journal(...parts: Uint8Array[]): string {
  const file = join(temporaryFolder(onTestFinished), "journal");
  writeFileSync(file, Buffer.concat(parts));
  return file;
}

async function texts(file: string): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const message of readJournal(file, key)) found.push(message.content.text);
  return found;
}

test("messages are read as they were written, large ones too", async () => {
  const large = "x".repeat(900_000);
  const written = ["a", large, large, large, "b"];
  expect(await texts(journal(...written.map((text) => printed(text))))).toEqual(written);
});

test("a message that is still being written is not read", async () => {
  const file = journal(printed("a"), printed("b").subarray(0, -5));
  expect(await texts(file)).toEqual(["a"]);
});

test("what is not signed is left out, and what is no journal ends it", async () => {
  const forged = printed("forged", "cell", "another key");
  expect(await texts(journal(printed("a"), forged, printed("b")))).toEqual(["a", "b"]);
  expect(await texts(journal(printed("a"), number(0xffffffff), printed("b")))).toEqual(["a"]);
  expect(await texts(journal(printed("a"), number(1), number(0xffffffff), printed("b")))).toEqual(["a"]);
  expect(await texts(journal())).toEqual([]);
});

test("the newest cell is distinguished from late output, another cell's and its own", async () => {
  const file = journal(
    printed("before any cell"),
    shown("execute_input", { code: "1 / 0", execution_count: 7 }),
    printed("a"),
    printed("late", "older cell"),
    shown("error", { ename: "ZeroDivisionError", evalue: "", traceback: [] }),
    shown("status", { execution_state: "idle" }),
    printed("after the end"),
  );
  expect(await readNewestCell(file, key)).toMatchObject({
    id: "cell",
    code: "1 / 0",
    executionCount: 7,
    failed: true,
    over: true,
    events: [{ type: "stream", text: "a" }, { type: "error" }],
  });
});

test("without a journal, or without a cell in it, the result is undefined", async () => {
  expect(await readNewestCell(join(temporaryFolder(onTestFinished), "journal"), key)).toBeUndefined();
  expect(await readNewestCell(journal(printed("a")), key)).toBeUndefined();
});
