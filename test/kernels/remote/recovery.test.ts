import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createMessage, type JupyterMessage } from "../../../src/kernels/protocol/message.ts";
import { type BreakingChannel, RecoveringChannel } from "../../../src/kernels/remote/recovery.ts";

const SESSION = "client";

/** A scripted connection: what was sent, what arrives, and how often it reconnected. */
function start() {
  let hear: (message: JupyterMessage) => void = () => {};
  const sent: JupyterMessage[] = [];
  const listeners: (() => void)[] = [];
  const reconnect = vi.fn();
  let isConnected = true;
  let end = (_: { reason: string }) => {};
  const closed = new Promise<{ reason: string }>((resolve) => {
    end = resolve;
  });
  const socket: BreakingChannel = {
    get isConnected() {
      return isConnected;
    },
    closed,
    send: async (message) => void sent.push(message),
    listen: (listener) => {
      hear = listener;
    },
    onReconnect: (listener) => void listeners.push(listener),
    reconnect,
    close: async () => {},
  };
  const channel = new RecoveringChannel(socket, SESSION);
  const question = () => sent.findLast(({ header }) => header.msg_type === "cellwright_request")?.header;
  const come = async (kind: "control" | "iopub", type: string, content: Record<string, unknown>) => {
    hear(createMessage(kind, type, content, { session: SESSION, parent: question() ?? {} }));
    await vi.advanceTimersByTimeAsync(0);
  };
  return {
    channel,
    sent,
    reconnect,
    isGone: () => {
      isConnected = false;
    },
    ends: () => end({ reason: "The server does not have the kernel any more." }),
    breaks: () => {
      isConnected = true;
      for (const listener of listeners) listener();
    },
    hears: (message: JupyterMessage) => hear(message),
    asked: () => question()?.msg_id,
    answers: (messages: JupyterMessage[] = [], rest: Record<string, unknown> = {}) =>
      come("control", "cellwright_reply", { state: "newest", messages, dropped: 0, ...rest }),
    publishes: () => come("iopub", "status", { execution_state: "idle" }),
  };
}

describe("after a connection broke", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const cell = () => createMessage("shell", "execute_request", { code: "1" }, { session: SESSION });

  test("a server that forwards answers but no output causes a reconnect", async () => {
    const { channel, breaks, answers, reconnect } = start();
    await channel.send(cell());
    breaks();
    await answers();
    expect(reconnect).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(reconnect).toHaveBeenCalledTimes(1);
  });

  test("one that passes on both is left alone", async () => {
    const { channel, breaks, answers, publishes, reconnect } = start();
    await channel.send(cell());
    breaks();
    for (let seconds = 0; seconds < 60; seconds += 10) {
      await publishes();
      await answers();
      await vi.advanceTimersByTimeAsync(10_000);
    }
    expect(reconnect).not.toHaveBeenCalled();
  });

  test("a cell whose end the server did not pass on is found to have ended", async () => {
    const { channel, breaks, answers, publishes, asked } = start();
    const shown: unknown[] = [];
    channel.listen(({ header, content }) => void shown.push(content.text ?? header.msg_type));
    const request = cell();
    const about = { session: SESSION, parent: request.header };
    const print = createMessage("iopub", "stream", { name: "stdout", text: "missed" }, about);
    const idle = createMessage("iopub", "status", { execution_state: "idle" }, about);
    await channel.send(request);
    breaks();
    await publishes();
    await answers();
    const first = asked();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked()).not.toBe(first);
    shown.length = 0;
    await publishes();
    await answers([], { reply: { status: "ok" } });
    await answers([print, idle], { reply: { status: "ok" } });
    expect(shown).toEqual(["missed", "status", "execute_reply"]);
  });

  test("the next cell is checked, too: a connection that goes silent is replaced", async () => {
    const { channel, breaks, answers, publishes, reconnect } = start();
    breaks();
    await publishes();
    await answers();
    await channel.send(cell());
    await vi.advanceTimersByTimeAsync(10_000 + 3 * 3_000);
    expect(reconnect).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(3_000);
    expect(reconnect).toHaveBeenCalledTimes(1);
  });

  test("a cell on a connection that never broke is not checked", async () => {
    const { channel, sent } = start();
    await channel.send(cell());
    await vi.advanceTimersByTimeAsync(60_000);
    expect(sent.map(({ header }) => header.msg_type)).toEqual(["execute_request"]);
  });

  test("one that does not answer is asked again, and reconnected after three times", async () => {
    const { channel, breaks, sent, reconnect } = start();
    await channel.send(cell());
    breaks();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(sent.filter(({ header }) => header.msg_type === "cellwright_request")).toHaveLength(3);
    expect(reconnect).toHaveBeenCalledTimes(1);
  });

  test("a server that is merely slow gets more time with each connection, until it has answered and shown something", async () => {
    const { channel, breaks, answers, publishes, reconnect } = start();
    await channel.send(cell());
    for (const [made, seconds] of [9, 18, 36].entries()) {
      breaks();
      await vi.advanceTimersByTimeAsync((seconds - 1) * 1_000);
      expect(reconnect).toHaveBeenCalledTimes(made);
      await vi.advanceTimersByTimeAsync(1_000);
      expect(reconnect).toHaveBeenCalledTimes(made + 1);
    }
    breaks();
    await publishes();
    await answers();
    breaks();
    await vi.advanceTimersByTimeAsync(9_000);
    expect(reconnect).toHaveBeenCalledTimes(4);
  });

  test("what comes before the kernel's answer is shown after what the answer has, however long that takes", async () => {
    const { channel, breaks, answers, hears } = start();
    const shown: unknown[] = [];
    channel.listen(({ content }) => void shown.push(content.text));
    const request = cell();
    const print = (text: string) =>
      createMessage("iopub", "stream", { name: "stdout", text }, { session: SESSION, parent: request.header });
    await channel.send(request);
    breaks();
    hears(print("second"));
    await vi.advanceTimersByTimeAsync(20_000);
    breaks();
    hears(print("third"));
    await vi.advanceTimersByTimeAsync(20_000);
    expect(shown).toEqual([]);
    await answers([print("first")]);
    expect(shown).toEqual(["first", "second", "third"]);
  });

  test("a kernel that answers nothing for a minute is not waited for any longer", async () => {
    const { channel, breaks, hears, reconnect } = start();
    reconnect.mockImplementation(breaks);
    const shown = vi.fn();
    channel.listen(shown);
    const request = cell();
    await channel.send(request);
    breaks();
    hears(createMessage("iopub", "stream", { text: "1" }, { session: SESSION, parent: request.header }));
    await vi.advanceTimersByTimeAsync(50_000);
    expect(shown).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(shown).toHaveBeenCalledTimes(1);
  });

  test("it is settled once the kernel has answered", async () => {
    const { channel, isGone, breaks, answers } = start();
    expect(await channel.settled()).toBe(true);
    isGone();
    const settled = vi.fn();
    void channel.settled().then(settled);
    await vi.advanceTimersByTimeAsync(15_000);
    breaks();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(settled).not.toHaveBeenCalled();
    await answers();
    expect(settled).toHaveBeenCalledExactlyOnceWith(true);
  });

  test("it is settled that a kernel is gone whose server does not have it any more", async () => {
    const { channel, isGone, ends } = start();
    isGone();
    const settled = channel.settled();
    ends();
    expect(await settled).toBe(false);
    expect(await channel.settled()).toBe(false);
  });

  test("a kernel that does not answer is not waited for", async () => {
    const { channel, isGone, breaks } = start();
    isGone();
    const settled = channel.settled();
    breaks();
    await vi.advanceTimersByTimeAsync(4_000);
    expect(await settled).toBe(true);
  });

  test("while output is held back, none is expected", async () => {
    const { channel, breaks, reconnect } = start();
    await channel.send(cell());
    channel.holdOutput(true);
    breaks();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(reconnect).not.toHaveBeenCalled();
  });
});
