import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createBodyReader, HttpError } from "../../src/http/body.ts";

const MAX = 1024 * 1024;

/** A server that reads bodies and answers when the test says so; refusals are sent at once. */
async function start() {
  const readBody = createBodyReader(MAX);
  const waiting: ServerResponse[] = [];
  let tell = (_outcome: "read" | number) => {};
  const handle = async (incoming: IncomingMessage, response: ServerResponse) => {
    try {
      await readBody(incoming, response, { owner: incoming.headers.authorization ?? "" });
      waiting.push(response);
      tell("read");
    } catch (error) {
      response.destroy();
      tell(error instanceof HttpError ? error.status : 500);
    }
  };
  const server = createServer((incoming, response) => void handle(incoming, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;

  /** Sends a body and waits until it was read, or refused. */
  const send = async (owner: string, bytes: number) => {
    const outcome = new Promise<"read" | number>((resolve) => {
      tell = resolve;
    });
    const sent = request({ port, host: "127.0.0.1", method: "POST", headers: { authorization: owner }, agent: false });
    sent.on("error", () => {});
    sent.end(Buffer.alloc(bytes));
    return { outcome: await outcome, sent };
  };
  const read = async (owner: string, bytes: number) => (await send(owner, bytes)).outcome;
  const answered = async (response: ServerResponse | undefined) => {
    const closed = once(response as ServerResponse, "close");
    response?.end();
    await closed;
  };
  return { waiting, send, read, answered };
}

test("a body counts until its request is answered, or until its client has gone", async () => {
  const { waiting, send, read, answered } = await start();
  expect(await read("ann", MAX)).toBe("read");
  const { sent } = await send("ann", MAX);
  expect(await read("ann", MAX)).toBe("read");
  expect(await read("ann", MAX)).toBe(503);

  await answered(waiting[0]);
  expect(await read("ann", MAX)).toBe("read");
  expect(await read("ann", MAX)).toBe(503);

  const closed = once(waiting[1] as ServerResponse, "close");
  sent.destroy();
  await closed;
  expect(await read("ann", MAX)).toBe("read");
});

test("what one caller has sent leaves room for another, and small requests are always read", async () => {
  const { read } = await start();
  for (let count = 0; count < 3; count += 1) expect(await read("ann", MAX)).toBe("read");
  expect(await read("ann", 1_000)).toBe("read");
  expect(await read("bob", MAX - 1_000)).toBe("read");
  expect(await read("bob", MAX)).toBe(503);
  expect(await read("bob", 1_000)).toBe("read");
});
