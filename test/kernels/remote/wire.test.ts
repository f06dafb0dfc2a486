import { describe, expect, test } from "vitest";
import { createMessage } from "../../../src/kernels/protocol/message.ts";
import { decodeMessage, encodeMessage, V1 } from "../../../src/kernels/remote/server/wire.ts";

const buffers = [Buffer.from([0, 255, 1]), Buffer.alloc(0), Buffer.from("é")];
const content = { code: "print('🙂')", silent: false };
const options = { session: "me", parent: { msg_id: "before" }, metadata: { a: [1] } };

describe.each([V1, ""])("messages as WebSocket frames, subprotocol `%s`", (protocol) => {
  const bytes = (frame: string | Buffer) => ({ data: Buffer.from(frame), isBinary: typeof frame !== "string" });

  test.each([[[]], [buffers]])("come back as they were, with buffers %j", (given) => {
    const message = createMessage("shell", "execute_request", content, { ...options, buffers: given });
    const { data, isBinary } = bytes(encodeMessage(message, protocol));
    expect(decodeMessage(data, isBinary, protocol)).toEqual(message);
  });

  test("that are cut or made up are none", () => {
    const message = createMessage("iopub", "stream", content, { ...options, buffers });
    const { data, isBinary } = bytes(encodeMessage(message, protocol));
    for (let length = 0; length < data.length - 5; length += 1) {
      expect(decodeMessage(data.subarray(0, length), isBinary, protocol)).toBeUndefined();
    }
    const wild = Buffer.alloc(200, 0xff);
    expect(decodeMessage(wild, true, protocol)).toBeUndefined();
    expect(decodeMessage(wild, false, protocol)).toBeUndefined();
    expect(decodeMessage(Buffer.from("[1]"), false, protocol)).toBeUndefined();
  });

  test("on a channel that is none are none", () => {
    const message = { ...createMessage("shell", "x", content, options), channel: "__proto__" as "shell" };
    const { data, isBinary } = bytes(encodeMessage(message, protocol));
    expect(decodeMessage(data, isBinary, protocol)).toBeUndefined();
  });
});
