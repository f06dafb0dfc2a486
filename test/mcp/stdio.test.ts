import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { until } from "../support/until.ts";
import { connect, createWorld, MB, startStdio, textOf } from "./support.ts";

/** Both ends of the pipes. */
function start(options = {}) {
  const world = createWorld({ options });
  const { toServer, fromServer, connection } = startStdio(world);
  const answers: { id?: unknown; result?: object; error?: { code: number; message: string } }[] = [];
  let rest = "";
  fromServer.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    answers.push(...lines.map((line) => JSON.parse(line)));
  });
  const answer = async (id: unknown) => {
    await until(`answer ${id}`, () => answers.some((one) => one.id === id && ("result" in one || "error" in one)));
    return answers.find((one) => one.id === id);
  };
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } };
  const send = (message: object) => toServer.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  send({ id: "init", method: "initialize", params });
  return { ...world, toServer, fromServer, connection, answers, answer, send };
}

const echo = (id: unknown, text: string) =>
  JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "echo", arguments: { text } } });

describe("a line that cannot be read is answered, and the next one served", () => {
  test.each([
    ["broken JSON", "{", null, -32700],
    ["words", "hello there", null, -32700],
    ["no JSON-RPC", '{"id":5,"method":"x"}', 5, -32600],
    ["a number", "42", null, -32600],
    ["null", "null", null, -32600],
    ["a method of a wrong type", '{"jsonrpc":"2.0","id":"s","method":7}', "s", -32600],
    ["a million levels", `${"[".repeat(1e6)}${"]".repeat(1e6)}`, null, -32600],
  ])("%s", async (_, line, id, code) => {
    const { toServer, answer } = start();
    toServer.write(`${line}\n${echo(1, "next")}\n`);
    expect(await answer(id)).toMatchObject({ error: { code } });
    expect(await answer(1)).toHaveProperty("result");
  });

  test("broken UTF-8", async () => {
    const { toServer, answer } = start();
    toServer.write(Buffer.from([0x7b, 0xff, 0x0a]));
    expect(await answer(null)).toMatchObject({ error: { code: -32700 } });
  });

  test.each([
    ["its id last", (pad: string) => `{"method":"x","params":{"pad":"${pad}"},"jsonrpc":"2.0","id":77}`, 77],
    ["its id first", (pad: string) => `{"jsonrpc":"2.0","id":"abc","method":"x","params":{"pad":"${pad}"}}`, "abc"],
    ["an id that cannot be found", (pad: string) => `{"a":{"id":3},"pad":"${pad}"}`, null],
  ])("too long, with %s", async (_, line, id) => {
    const { toServer, answer } = start({ maxRequestMb: 1 });
    toServer.write(`${line("x".repeat(3 * MB))}\n${echo(1, "next")}\n`);
    expect(await answer(id)).toMatchObject({ error: { code: -32600, message: expect.stringContaining("1 MB") } });
    expect(await answer(1)).toHaveProperty("result");
  });
});

test("lines may end in CRLF, be empty, come in pieces and several at once", async () => {
  const { toServer, answer, answers } = start();
  const bytes = Buffer.from(`\r\n${echo(1, "é\u2028€")}\r\n  \n${echo(2, "two")}\n\n${echo(3, "three")}\n`);
  for (let at = 0; at < bytes.length; at += 7) toServer.write(bytes.subarray(at, at + 7));
  expect(JSON.stringify(await answer(1))).toContain("é\u2028€");
  expect(await answer(2)).toHaveProperty("result");
  expect(await answer(3)).toHaveProperty("result");
  expect(answers.filter((one) => one.error)).toEqual([]);
});

test("a message of the largest size is read in small pieces", async () => {
  const { toServer, answer, sessions } = start({ maxRequestMb: 64 });
  await sessions.create("local");
  const line = Buffer.from(
    `${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "look", arguments: { session_id: "x".repeat(60 * MB) } } })}\n`,
  );
  for (let at = 0; at < line.length; at += 65_536) toServer.write(line.subarray(at, at + 65_536));
  expect(await answer(1)).toHaveProperty("result");
});

test("two requests with one id are both answered", async () => {
  const { toServer, answers } = start();
  toServer.write(`${echo(9, "one")}\n${echo(9, "two")}\n`);
  await until(() => answers.filter((one) => one.id === 9).length === 2);
  const texts = answers.filter((one) => one.id === 9).map((one) => JSON.stringify(one.result));
  expect(texts.join()).toContain("one");
  expect(texts.join()).toContain("two");
});

test("cancelling before, twice, after and what never was changes nothing else", async () => {
  const { send, answer, seen, toServer } = start();
  const cancel = (requestId: unknown) => send({ method: "notifications/cancelled", params: { requestId } });
  cancel(12345);
  for (let turn = 0; turn < 50; turn += 1) {
    send({ id: turn, method: "tools/call", params: { name: "block", arguments: { tag: `t${turn}` } } });
    if (turn % 2 === 0) await until(() => seen.began.includes(`t${turn}`));
    cancel(turn);
    cancel(turn);
  }
  await until(() => seen.aborted.length === seen.began.length && seen.began.length >= 25);
  toServer.write(`${echo("last", "here")}\n`);
  expect(await answer("last")).toHaveProperty("result");
  cancel("last");
});

describe("the end of a connection", () => {
  test("by the client: running calls are aborted, and `closed` resolves", async () => {
    const { toServer, connection, send, seen } = start();
    send({ id: 1, method: "tools/call", params: { name: "block", arguments: { tag: "running" } } });
    await until(() => seen.began.length > 0);
    toServer.end();
    await connection.closed;
    await until(() => seen.aborted.includes("running"));
  });

  test("by the client, right after its last request, which is still answered", async () => {
    const { toServer, connection, answers } = start();
    toServer.end(`${echo(1, "quick")}\n`);
    await connection.closed;
    expect(answers.map((one) => one.id)).toEqual(["init", 1]);
  });

  test("by a pipe that is not read any more", async () => {
    const { fromServer, connection, toServer } = start();
    await until(() => fromServer.readableFlowing === true);
    fromServer.destroy(Object.assign(new Error("write EPIPE"), { code: "EPIPE" }));
    toServer.write(`${echo(1, "x")}\n`);
    await connection.closed;
  });

  test("by us, twice", async () => {
    const { connection } = start();
    await Promise.all([connection.close(), connection.close()]);
    await connection.closed;
  });

  test("before the client said anything", async () => {
    const { toServer, connection } = startStdio(createWorld());
    toServer.end();
    await connection.closed;
  });
});

test("what anything else in the process prints stays off the protocol's pipe", async () => {
  const stdio = new URL("../../dist/mcp/stdio.js", import.meta.url);
  const script = `
    import { serveStdio } from ${JSON.stringify(stdio.href)};
    const log = { error() {}, warn() {}, info() {}, debug() {} };
    const { closed } = serveStdio({ createServer: async () => {}, maxRequestBytes: 1000, log });
    console.log("stray line");
    process.stdout.write("stray bytes");
    await closed;`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script]);
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name].setEncoding("utf8").on("data", (text) => {
      output[name] += text;
    });
  }
  child.stdin.write("{\n");
  await until(() => output.stdout.endsWith("\n"));
  child.stdin.end();
  const [code] = await once(child, "close");
  expect(code).toBe(0);
  expect(JSON.parse(output.stdout)).toMatchObject({ id: null, error: { code: -32700 } });
  expect(output.stderr).toContain("stray line\nstray bytes");
});

test("a modern client is served in its own revision", async () => {
  const world = createWorld();
  const client = await connect("v2 modern", startStdio(world));
  expect(client.v2?.getNegotiatedProtocolVersion()).toBe("2026-07-28");
  expect(textOf(await client.call("echo", { text: "hi" }))).toContain("hi");
});
