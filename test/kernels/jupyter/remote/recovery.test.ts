import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createMessage, type JupyterMessage } from "../../../../src/kernels/jupyter/message.ts";
import { MessageQueue } from "../../../../src/kernels/jupyter/message-queue.ts";
import { type BreakingChannel, RecoveringChannel } from "../../../../src/kernels/jupyter/remote/recovery.ts";

const SESSION = "client";

/** A connection by hand: what was sent, what comes, and how often another was made. */
function start() {
  const incoming = new MessageQueue();
  const sent: JupyterMessage[] = [];
  const listeners: (() => void)[] = [];
  const reconnect = vi.fn();
  const socket: BreakingChannel = {
    isConnected: true,
    closed: new Promise(() => {}),
    send: async (message) => void sent.push(message),
    messages: () => incoming.read(),
    onReconnect: (listener) => void listeners.push(listener),
    reconnect,
    close: async () => {},
  };
  const channel = new RecoveringChannel(socket, SESSION);
  const question = () => sent.findLast(({ header }) => header.msg_type === "cellwright_request")?.header;
  const come = async (kind: "control" | "iopub", type: string, content: Record<string, unknown>) => {
    incoming.push(createMessage(kind, type, content, { session: SESSION, parent: question() ?? {} }));
    await vi.advanceTimersByTimeAsync(0);
  };
  return {
    channel,
    sent,
    reconnect,
    breaks: () => {
      for (const listener of listeners) listener();
    },
    answers: () => come("control", "cellwright_reply", { state: "newest", messages: [], dropped: 0 }),
    publishes: () => come("iopub", "status", { execution_state: "idle" }),
  };
}

describe("after a connection broke", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const cell = () => createMessage("shell", "execute_request", { code: "1" }, { session: SESSION });

  test("a server that passes on answers and no output is connected anew", async () => {
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
    await publishes();
    await answers();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(reconnect).not.toHaveBeenCalled();
  });

  test("one that does not answer is asked again, and connected anew after three times", async () => {
    const { channel, breaks, sent, reconnect } = start();
    await channel.send(cell());
    breaks();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(sent.filter(({ header }) => header.msg_type === "cellwright_request")).toHaveLength(3);
    expect(reconnect).toHaveBeenCalledTimes(1);
  });

  test("while output is held back nobody expects any", async () => {
    const { channel, breaks, reconnect } = start();
    await channel.send(cell());
    channel.holdOutput(true);
    breaks();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(reconnect).not.toHaveBeenCalled();
  });
});
