import { once } from "node:events";
import { connect as connectSocket, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { createHttpApp, type Route } from "../../src/http/app.ts";
import { connect, createWorld, MB, startHttp, textOf } from "../mcp/support.ts";
import { until } from "../support/until.ts";

const jsonHeaders = { "content-type": "application/json", accept: "application/json, text/event-stream" };
const initialize = (protocolVersion = "2025-06-18") =>
  JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "initialize",
    params: { protocolVersion, capabilities: {}, clientInfo: { name: "t", version: "1" } },
  });
const list = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';

function post(url: URL, body: string | Uint8Array, headers: Record<string, string> = {}) {
  return fetch(url, { method: "POST", headers: { ...jsonHeaders, ...headers }, body, duplex: "half" } as RequestInit);
}

async function errorOf(response: Response) {
  const { error } = (await response.json()) as { error: { code: number; message: string } };
  return { status: response.status, code: error.code, message: error.message };
}

/** A raw connection: sends the given bytes, keeps what it receives. */
async function dial(port: number) {
  const socket = connectSocket(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  let received = "";
  socket.setEncoding("utf8").on("data", (text) => {
    received += text;
  });
  socket.on("error", () => {});
  const closed = once(socket, "close");
  return { socket, closed, received: () => received };
}

describe("a request is answered", () => {
  test("for its health without a token, and without a secret", async () => {
    const { port } = await startHttp(createWorld({ options: { authToken: ["ann=hush"] } }));
    const response = await fetch(`http://127.0.0.1:${port}/healthz`);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ status: "ok" });
    expect((await fetch(`http://127.0.0.1:${port}/healthz`, { method: "HEAD" })).status).toBe(200);
    expect((await fetch(`http://127.0.0.1:${port}/healthz`, { method: "POST" })).status).toBe(405);
  });

  test("404 elsewhere", async () => {
    const { url } = await startHttp(createWorld());
    for (const path of ["/", "/mcp/", "/mcp/x", "/MCP", "/__proto__", "/constructor"]) {
      expect((await fetch(new URL(path, url), { redirect: "manual" })).status, path).toBe(404);
    }
  });

  test("403 for a foreign Origin or Host, whose right twin is served", async () => {
    const { url, port } = await startHttp(createWorld({ options: { allowedHosts: ["cells.example"] } }));
    expect((await post(url, initialize(), { origin: "https://evil.example" })).status).toBe(403);
    expect((await post(url, initialize(), { origin: "null" })).status).toBe(403);
    expect((await post(url, initialize(), { origin: "http://localhost:6274" })).status).toBe(200);
    const asHost = async (host: string) => {
      const { socket, received } = await dial(port);
      socket.write(`GET /mcp HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      await until(() => received().includes("\r\n\r\n"));
      return received().slice(9, 12);
    };
    expect(await asHost("evil.example")).toBe("403");
    expect(await asHost(`evil.example:${port}`)).toBe("403");
    expect(await asHost("cells.example")).toBe("405");
    expect(await asHost(`localhost:${port}`)).toBe("405");
  });

  test("401 without a token, with a wrong one, or with one in the address", async () => {
    const world = createWorld({ options: { authToken: ["ann=token-of-ann"] } });
    const { url } = await startHttp(world);
    const none = await post(url, initialize());
    expect(none.status).toBe(401);
    expect(none.headers.get("www-authenticate")).toBe('Bearer realm="cellwright"');
    const wrong = await post(url, initialize(), { authorization: "Bearer nope-nope" });
    expect(wrong.status).toBe(401);
    expect(wrong.headers.get("www-authenticate")).toContain("invalid_token");
    expect((await post(new URL("?access_token=token-of-ann", url), initialize())).status).toBe(401);
    expect((await post(url, initialize(), { authorization: "Bearer token-of-ann" })).status).toBe(200);
    expect(world.lines.join("")).not.toMatch(/token-of-ann|nope-nope/);
  });

  test("405 for what older and newer clients cannot do", async () => {
    const { url } = await startHttp(createWorld());
    const modern = { "mcp-protocol-version": "2026-07-28" };
    for (const method of ["GET", "DELETE", "PUT", "OPTIONS"]) {
      expect((await fetch(url, { method })).status, method).toBe(405);
      expect((await fetch(url, { method, headers: modern })).status, method).toBe(405);
      expect((await fetch(url, { method, headers: { ...modern, "mcp-session-id": "x" } })).status, method).toBe(405);
    }
  });

  test("404 for a connection that is unknown, 400 for one that was never begun", async () => {
    const { url } = await startHttp(createWorld());
    expect(await errorOf(await post(url, list, { "mcp-session-id": "nope" }))).toMatchObject({
      status: 404,
      code: -32001,
    });
    expect(await errorOf(await post(url, list))).toMatchObject({ status: 400, code: -32600 });
  });

  test("400 for what is no message", async () => {
    const { url } = await startHttp(createWorld());
    for (const body of ["{", "", "\u0000", "not json", "[1,2", '{"a":1}{"b":2}']) {
      expect(await errorOf(await post(url, body)), body).toMatchObject({ status: 400, code: -32700 });
    }
    expect(await errorOf(await post(url, new Uint8Array([0x22, 0xff, 0xfe, 0x22])))).toMatchObject({ code: -32700 });
    for (const body of ["[]", "1", "null", '"x"', "{}", '{"jsonrpc":"1.0","id":1,"method":"initialize"}']) {
      expect((await post(url, body)).status, body).toBe(400);
    }
    expect((await post(url, initialize(), { "content-type": "text/plain" })).status).toBe(415);
    expect((await post(url, `\ufeff${initialize()}`)).status).toBe(200);
  });

  test("400 for a million levels of nesting, in the envelope or in arguments", async () => {
    const world = createWorld();
    const { url } = await startHttp(world);
    const deep = "[".repeat(1e6) + "]".repeat(1e6);
    const deepObject = `${'{"a":'.repeat(1e6)}1${"}".repeat(1e6)}`;
    for (const nested of [deep, deepObject]) {
      const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a","extra":{"x":${nested}}}}}`;
      for (const body of [nested, call]) {
        expect(await errorOf(await post(url, body))).toMatchObject({ status: 400, code: -32600 });
      }
    }
    expect((await post(url, initialize())).status).toBe(200);
  });

  test("-32020 and -32022 for headers that contradict the body, and for unknown revisions", async () => {
    const { url } = await startHttp(createWorld());
    const meta = (version: string) => ({
      "io.modelcontextprotocol/protocolVersion": version,
      "io.modelcontextprotocol/clientCapabilities": {},
      "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
    });
    const call = (version: string) =>
      JSON.stringify({
        jsonrpc: "2.0",
        id: 7,
        method: "tools/call",
        params: { name: "echo", arguments: { text: "a" }, _meta: meta(version) },
      });
    const headers = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo" };
    expect((await post(url, call("2026-07-28"), headers)).status).toBe(200);
    expect(await errorOf(await post(url, call("2026-07-28"), { ...headers, "mcp-name": "fail" }))).toMatchObject({
      status: 400,
      code: -32020,
    });
    expect(
      await errorOf(await post(url, call("2099-01-01"), { ...headers, "mcp-protocol-version": "2099-01-01" })),
    ).toMatchObject({ status: 400, code: -32022 });
  });
});

describe("a body", () => {
  test("that says it is too large is refused before it is sent", async () => {
    const { port } = await startHttp(createWorld({ options: { maxRequestMb: 1 } }));
    const { socket, received, closed } = await dial(port);
    socket.write(
      `POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${2 * MB}\r\n\r\n`,
    );
    await until(() => received().includes("\r\n\r\n"));
    expect(received()).toMatch(/^HTTP\/1.1 413 /);
    expect(received().toLowerCase()).toContain("connection: close");
    await closed;
  });

  test("is not asked for when it is too large or from a stranger", async () => {
    const { port } = await startHttp(createWorld({ options: { maxRequestMb: 1, authToken: ["t-t-t"] } }));
    const answer = async (length: number, token: string) => {
      const { socket, received } = await dial(port);
      socket.write(
        `POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nExpect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`,
      );
      await until(() => received().includes("\r\n\r\n"));
      return received().slice(9, 12);
    };
    expect(await answer(2 * MB, "t-t-t")).toBe("413");
    expect(await answer(10, "wrong")).toBe("401");
    expect(await answer(10, "t-t-t")).toBe("100");
  });

  test("without an end is refused as soon as it is too large", async () => {
    const world = createWorld({ options: { maxRequestMb: 1 } });
    const { url, port } = await startHttp(world);
    const { socket, received, closed } = await dial(port);
    socket.write("POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    const chunk = `10000\r\n${"x".repeat(0x10000)}\r\n`;
    let sent = 0;
    while (!received().includes("413") && sent < 64) {
      socket.write(chunk);
      sent += 1;
      await nextTurn();
    }
    expect(received()).toMatch(/^HTTP\/1.1 413 /);
    expect(sent).toBeLessThan(64);
    await closed;
    expect((await post(url, initialize())).status).toBe(200);
  });

  test("of a client that does not stop sending still gets its answer", async () => {
    const { url } = await startHttp(createWorld({ options: { maxRequestMb: 1 } }));
    for (let time = 0; time < 10; time += 1) {
      const response = await post(url, Buffer.alloc(8 * MB, 0x20));
      expect(await errorOf(response)).toMatchObject({ status: 413, message: expect.stringContaining("1 MB") });
    }
  });

  test("of the largest size allowed is served", async () => {
    const world = createWorld({ options: { maxRequestMb: 64 } });
    const client = await connect("v1", await startHttp(world));
    const text = "x".repeat(64 * MB - 500);
    const result = await client.call("look", { session_id: text });
    expect(textOf(result)).toContain("There is no session");
  });

  test("with odd characters is served as it is", async () => {
    const client = await connect("v1", await startHttp(createWorld()));
    const odd = "nul \u0000 lone \ud800 bom \ufeff crlf \r\n separators \u2028\u2029";
    const result = await client.call("echo", { text: "a", extra: { odd } });
    expect(result.isError).toBeFalsy();
  });

  test("with a Content-Length that lies is cut off or waited for in vain", async () => {
    const { port } = await startHttp(createWorld(), { limits: { headersMs: 300, requestMs: 600 } });
    const short = await dial(port);
    short.socket.write(`POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n${initialize()}`);
    await short.closed;
    expect(short.received()).toMatch(/^HTTP\/1.1 400 /);
    const long = await dial(port);
    long.socket.write(`POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n${initialize()}`);
    await long.closed;
    expect(long.received()).toMatch(/^HTTP\/1.1 408 /);
  });

  test("and headers that arrive too slowly time out", async () => {
    const { port, url } = await startHttp(createWorld(), { limits: { headersMs: 300, requestMs: 600 } });
    const headers = await dial(port);
    headers.socket.write("POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: ");
    const body = await dial(port);
    body.socket.write("POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    const drip = setInterval(() => {
      headers.socket.write("x");
      body.socket.write("1\r\n[\r\n");
    }, 20);
    onTestFinished(() => clearInterval(drip));
    const silent = await dial(port);
    await Promise.all([headers.closed, body.closed, silent.closed]);
    expect((await post(url, initialize())).status).toBe(200);
  });

  test("many large ones at once do not fill the memory", async () => {
    const { url, port } = await startHttp(createWorld({ options: { maxRequestMb: 1 } }));
    const senders = await Promise.all(Array.from({ length: 8 }, () => dial(port)));
    for (const { socket } of senders) {
      socket.write(`POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${MB}\r\n\r\n`);
      socket.write(Buffer.alloc(MB - 10, 0x20));
    }
    await until(() => senders.some(({ received }) => received().startsWith("HTTP/1.1 503 ")));
    for (const { socket } of senders) socket.destroy();
    await until(async () => (await post(url, initialize())).status === 200);
  });
});

test("idle connections by the thousand do not keep a client from being served", async () => {
  const world = createWorld();
  const { url, port } = await startHttp(world);
  const idle: Socket[] = [];
  onTestFinished(() => {
    for (const socket of idle) socket.destroy();
  });
  for (let batch = 0; batch < 50; batch += 1) {
    const opened = Array.from({ length: 100 }, () => connectSocket(port, "127.0.0.1").on("error", () => {}));
    await Promise.all(opened.map((socket) => once(socket, "connect")));
    idle.push(...opened);
  }
  const client = await connect("v2 modern", { url });
  expect(textOf(await client.call("echo", { text: "hi" }))).toContain("hi");
});

test("a taken port is said where it was asked for", async () => {
  const { port } = await startHttp(createWorld());
  await expect(startHttp(createWorld({ options: { port } }))).rejects.toThrow(`Port ${port} of 127.0.0.1 is in use`);
});

test("after it stops listening, earlier requests are still answered", async () => {
  let asked!: (answer: () => void) => void;
  const question = new Promise<() => void>((resolve) => {
    asked = resolve;
  });
  const routes: Record<string, Route> = {
    "/slow": { handle: async (_request, response) => asked(() => response.end("answered")) },
  };
  const { options, log } = createWorld();
  const app = createHttpApp({ options, routes, log });
  onTestFinished(() => app.close());
  const { url } = await app.listen();
  const reply = fetch(`${url}/slow`);
  const answer = await question;
  app.stopListening();
  await expect(fetch(`${url}/slow`)).rejects.toThrow();
  answer();
  expect(await (await reply).text()).toBe("answered");
});

test("closing ends everything, running calls included, and can be done twice", async () => {
  const world = createWorld();
  const server = await startHttp(world);
  const [legacy, modern] = [await connect("v1", server), await connect("v2 modern", server)];
  legacy.call("block", { tag: "legacy" }).catch(() => {});
  modern.call("block", { tag: "modern" }).catch(() => {});
  await dial(server.port);
  await until(() => world.seen.began.length === 2);
  await Promise.all([server.close(), server.close()]);
  await until(() => world.seen.aborted.length === 2);
  await expect(fetch(server.url)).rejects.toThrow();
});
