import { createHmac } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createMessage, decodeFrames, encodeFrames } from "../../../src/kernels/protocol/message.ts";

const key = "a key";
const message = createMessage(
  "shell",
  "execute_request",
  { code: "1 + 1 # 🙂" },
  { session: "me", metadata: { a: 1 }, buffers: [new Uint8Array([0, 255])] },
);

describe("a message as frames", () => {
  test("comes back as it was", () => {
    const frames = encodeFrames(message, key).map((frame) => Buffer.from(frame));
    expect(decodeFrames("shell", frames, key)).toEqual({ ...message, buffers: [Buffer.from([0, 255])] });
  });

  test("may have identities before it", () => {
    const frames = [Buffer.from("who"), ...encodeFrames(message, key)];
    expect(decodeFrames("shell", frames, key)?.content).toEqual(message.content);
  });

  test.each([
    ["is signed with another key", (frames: Uint8Array[]) => frames, "another key"],
    ["has other content", (frames: Uint8Array[]) => frames.with(5, Buffer.from("{}")), key],
    ["has a signature of another length", (frames: Uint8Array[]) => frames.with(1, Buffer.from("abc")), key],
    ["lacks parts", (frames: Uint8Array[]) => frames.slice(0, 4), key],
    ["has no beginning", (frames: Uint8Array[]) => frames.slice(1), key],
    ["is empty", () => [], key],
  ])("is refused when it %s", (_, change, otherKey) => {
    expect(decodeFrames("shell", change(encodeFrames(message, key)), otherKey)).toBeUndefined();
  });

  test("is refused when it is signed but is not what it should be", () => {
    const odd = { ...message, header: "text" as never };
    expect(decodeFrames("iopub", encodeFrames(odd, key), key)).toBeUndefined();
    const list = { ...message, content: [1] as never };
    expect(decodeFrames("iopub", encodeFrames(list, key), key)).toBeUndefined();
  });
});

describe("a message that user code has made to do harm", () => {
  const display = (json: string) => {
    const frames = encodeFrames({ ...message, header: { ...message.header, msg_type: "display_data" } }, key);
    return sign([...frames.slice(2, 5), Buffer.from(`{"data":${json}}`)]);
  };
  const sign = (parts: Uint8Array[]) => {
    const hmac = createHmac("sha256", key);
    for (const part of parts) hmac.update(part);
    return [Buffer.from("<IDS|MSG>"), Buffer.from(hmac.digest("hex")), ...parts];
  };

  test.each([
    ["unfolds into too many values", `[${"{},".repeat(3_000_000)}0]`],
    ["is too deep", "[".repeat(100_000) + "]".repeat(100_000)],
    ["is too long", `"${"x".repeat(35_000_000)}"`],
  ])("is refused when it %s", (_, json) => {
    expect(decodeFrames("iopub", display(json), key)).toBeUndefined();
  });

  test.each([
    ["text full of what lists are made of", JSON.stringify('[{,\\"'.repeat(500_000))],
    ["many numbers", JSON.stringify(Array.from({ length: 1_000_000 }, (_, index) => index))],
  ])("is read when it is only large: %s", (_, json) => {
    expect(decodeFrames("iopub", display(json), key)?.content).toEqual({ data: JSON.parse(json) });
  });

  test("is refused when text does not come in pieces", () => {
    const long = createMessage("iopub", "stream", { name: "stdout", text: "x".repeat(1_100_000) }, { session: "me" });
    expect(decodeFrames("iopub", encodeFrames(long, key), key)).toBeUndefined();
  });
});
