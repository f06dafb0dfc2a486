import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { createMessage, type JupyterMessage } from "../../../src/kernels/protocol/message.ts";
import { connectNew } from "../../../src/kernels/remote/server/connect.ts";
import { JupyterServer } from "../../../src/kernels/remote/server/server.ts";
import { decodeMessage, encodeMessage, V1 } from "../../../src/kernels/remote/server/wire.ts";
import { createLog } from "../../../src/log.ts";

type Answer = (message: JupyterMessage, send: (message: JupyterMessage) => void) => void;

/** A server whose connections answer as `answers` says, in turn, and all further ones like the last. */
async function serve(answers: Answer[]) {
  const sockets = new WebSocketServer({ port: 0, host: "127.0.0.1", handleProtocols: () => V1 });
  onTestFinished(() => {
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
  });
  let connections = 0;
  sockets.on("connection", (socket: WebSocket) => {
    const answer = answers[Math.min(connections++, answers.length - 1)];
    socket.on("message", (data: Buffer, isBinary) => {
      const message = decodeMessage(data, isBinary, V1);
      if (message) answer?.(message, (reply) => socket.send(encodeMessage(reply, V1)));
    });
  });
  await once(sockets, "listening");
  const url = `http://127.0.0.1:${(sockets.address() as AddressInfo).port}`;
  return { server: new JupyterServer({ url, log: createLog("error") }), connections: () => connections };
}

const silent: Answer = () => {};
const alive: Answer = (question, send) => {
  const parent = question.header;
  const session = parent.session;
  send({ ...createMessage("iopub", "status", { execution_state: "idle" }, { session }), parent });
  send({ ...createMessage("shell", "kernel_info_reply", { status: "ok" }, { session }), parent });
};

test("a connection on which no kernel answers is replaced", async () => {
  const { server, connections } = await serve([silent, silent, alive]);
  const signal = AbortSignal.timeout(120_000);
  const channel = await connectNew(server, "k", { wsSession: "s", signal, firstAttemptMs: 50 });
  expect(channel.isConnected).toBe(true);
  expect(connections()).toBeGreaterThanOrEqual(3);
  await channel.close();
});

test("it ends with its signal, whose reason it throws", async () => {
  const { server } = await serve([silent]);
  const giveUp = new AbortController();
  const connecting = connectNew(server, "k", { wsSession: "s", signal: giveUp.signal, firstAttemptMs: 20 });
  giveUp.abort(new Error("given up"));
  await expect(connecting).rejects.toThrow("given up");
});

test("an unreachable server is reported at once", async () => {
  const server = new JupyterServer({ url: "http://127.0.0.1:1", log: createLog("error") });
  const connecting = connectNew(server, "k", { wsSession: "s", signal: AbortSignal.timeout(120_000) });
  await expect(connecting).rejects.toMatchObject({ code: "server_unreachable" });
});
