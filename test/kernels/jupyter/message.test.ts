import { describe, expect, test } from "vitest";
import { createMessage, decodeFrames, encodeFrames } from "../../../src/kernels/jupyter/message.ts";

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
