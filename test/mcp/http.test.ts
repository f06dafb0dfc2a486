import { describe, expect, onTestFinished, test, vi } from "vitest";
import { fileUri } from "../../src/tools/uri.ts";
import { until } from "../support/until.ts";
import { clientKinds, connect, createWorld, startHttp, textOf } from "./support.ts";

const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };

/** A legacy client, written by hand: one request at a time, with raw responses. */
async function initialize(url: URL, token?: string) {
  const authorization: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
  const send = (message: object, more: Record<string, string> = {}, signal?: AbortSignal) =>
    fetch(url, {
      method: "POST",
      headers: { ...headers, ...authorization, ...more },
      body: JSON.stringify(Array.isArray(message) ? message : { jsonrpc: "2.0", ...message }),
      signal,
    });
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } };
  const response = await send({ id: 0, method: "initialize", params });
  const session = { "mcp-session-id": response.headers.get("mcp-session-id") ?? "" };
  await response.text();
  const call = (id: number | string, name: string, args: object, signal?: AbortSignal) =>
    send({ id, method: "tools/call", params: { name, arguments: args } }, session, signal);
  const cancel = (requestId: unknown) =>
    send({ method: "notifications/cancelled", params: { requestId, reason: "x" } }, session);
  return { id: session["mcp-session-id"], send, session, call, cancel };
}

describe("two tenants", () => {
  const options = { authToken: ["ann=token-of-ann", "bob=token-of-bob"] };

  test.each(clientKinds)("do not see each other's sessions: %s", async (kind) => {
    const world = createWorld({ options });
    const { url } = await startHttp(world);
    const ann = await connect(kind, { url, token: "token-of-ann" });
    const bob = await connect(kind, { url, token: "token-of-bob" });
    expect(textOf(await ann.call("echo", { text: "me" }))).toContain("ann: me");
    expect(textOf(await bob.call("echo", { text: "me" }))).toContain("bob: me");
    const id = textOf(await ann.call("write", { path: "a.txt", text: "secret" }));
    expect(await bob.resources()).toEqual([]);
    const unknown = "AAAAAAAAAAAAAAAA";
    const answers = await Promise.all([id, unknown].map((one) => bob.call("look", { session_id: one })));
    expect(JSON.stringify(answers[0]).replaceAll(id, unknown)).toBe(JSON.stringify(answers[1]));
    const errors = await Promise.all(
      [id, unknown].map((one) =>
        bob.read(fileUri(one, "a.txt")).catch((error) => ({ ...error, message: error.message })),
      ),
    );
    expect(JSON.stringify(errors[0]).replaceAll(id, unknown)).toBe(JSON.stringify(errors[1]));
    expect(await ann.read(fileUri(id, "a.txt"))).toMatchObject({ text: "secret" });
    const heard = await bob.watch(fileUri(id, "a.txt"));
    const own = await ann.watch(fileUri(id, "a.txt"));
    await ann.call("write", { session_id: id, path: "a.txt", text: "more" });
    await until(() => own.length >= 2);
    expect(heard).toEqual([]);
  });

  test("a connection of one answers the other like an unknown one", async () => {
    const { url } = await startHttp(createWorld({ options }));
    const ann = await initialize(url, "token-of-ann");
    const asBob = (session: string, method: string) =>
      fetch(url, {
        method,
        headers: { ...headers, authorization: "Bearer token-of-bob", "mcp-session-id": session },
        body: method === "POST" ? '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' : undefined,
      }).then(async (response) => `${response.status} ${await response.text()}`);
    for (const method of ["POST", "GET", "DELETE"]) {
      expect(await asBob(ann.id, method)).toBe(await asBob("00000000-0000-4000-8000-000000000000", method));
    }
    expect((await ann.send({ id: 1, method: "tools/list" }, ann.session)).status).toBe(200);
  });
});

test.each(clientKinds)("two clients at once get their own answers: %s", async (kind) => {
  const { seen, ...world } = createWorld();
  const server = await startHttp(world);
  const clients = await Promise.all([connect(kind, server), connect(kind, server)]);
  const logs = await Promise.all(clients.map((client) => client.logs("info")));
  const calls = clients.flatMap((client, who) =>
    Array.from({ length: 20 }, async (_, turn) => {
      const progress: string[] = [];
      const tag = `client-${who}-${turn}`;
      const onProgress = ({ message = "" }) => progress.push(message);
      const result = await client.call("block", { tag }, { onProgress });
      expect(textOf(result)).toBe(`ended ${tag}`);
      expect(progress.every((message) => message.endsWith(` ${tag}`))).toBe(true);
    }),
  );
  await until(() => seen.began.length === calls.length);
  seen.release(...seen.began);
  await Promise.all(calls);
  await until(() => logs.every((messages) => messages.length >= 40));
  for (const [who, messages] of logs.entries()) {
    expect(messages.every(({ data }) => String(data).includes(` client-${who}-`))).toBe(true);
  }
});

describe("a client that vanishes in mid-call", () => {
  test("has cancelled it if it is a modern one", async () => {
    const world = createWorld();
    const client = await connect("v2 modern", await startHttp(world));
    client.call("block", { tag: "gone" }).catch(() => {});
    await until(() => world.seen.began.length > 0);
    client.vanish();
    await until(() => world.seen.aborted.includes("gone"));
  });

  test.each(["v1", "v2 legacy"] as const)("has not if it is an older one: %s", async (kind) => {
    const world = createWorld();
    const server = await startHttp(world);
    const client = await connect(kind, server);
    client.call("block", { tag: "gone" }).catch(() => {});
    await until(() => world.seen.began.length > 0);
    client.vanish();
    // Later connections are served after the server has noticed that the other one is gone.
    await fetch(new URL("/healthz", server.url));
    world.seen.release("gone");
    await until(() => world.seen.ended.includes("gone"));
    expect(world.seen.aborted).toEqual([]);
  });
});

describe("an older client", () => {
  test("may cancel early, late, twice and what never was", async () => {
    const world = createWorld();
    const { url } = await startHttp(world);
    const client = await initialize(url);
    for (const id of [99, "nope", null, { x: 1 }]) expect([202, 400]).toContain((await client.cancel(id)).status);
    for (let turn = 1; turn <= 50; turn += 1) {
      const answer = client.call(turn, "block", { tag: `t${turn}` });
      if (turn % 2 === 0) await until(() => world.seen.began.includes(`t${turn}`));
      else await answer;
      await client.cancel(turn);
      await client.cancel(turn);
      expect(await (await answer).text()).toBe("");
    }
    await until(() => world.seen.aborted.length === 50);
    const done = await client.call("last", "echo", { text: "still here" });
    expect(await done.text()).toContain("still here");
    expect((await client.cancel("last")).status).toBe(202);
  });

  test("may use an id again, but not while it is in use", async () => {
    const world = createWorld();
    const { url } = await startHttp(world);
    const client = await initialize(url);
    const first = await client.call(7, "block", { tag: "first" });
    const second = await client.call(7, "block", { tag: "second" });
    expect(second.status).toBe(409);
    expect(await second.json()).toMatchObject({ error: { code: -32600 } });
    world.seen.release("first");
    expect(await first.text()).toContain("ended first");
    expect(await (await client.call(7, "echo", { text: "again" })).text()).toContain("again");
    const twins = [1, 1].map((id) => ({
      jsonrpc: "2.0",
      id,
      method: "tools/call",
      params: { name: "echo", arguments: { text: "a" } },
    }));
    expect((await client.send(twins, client.session)).status).toBe(409);
    expect(world.seen.began).toEqual(["first"]);
  });

  test("may use an id of a request it has lost", async () => {
    const world = createWorld();
    const { url } = await startHttp(world);
    const client = await initialize(url);
    const leave = new AbortController();
    const lost = client.call(7, "block", { tag: "lost" }, leave.signal);
    await until(() => world.seen.began.includes("lost"));
    leave.abort();
    await lost.then((response) => response.text()).catch(() => {});
    world.seen.release("lost");
    await until(() => world.seen.ended.includes("lost"));
    await until(async () => (await (await client.call(7, "echo", { text: "again" })).text()).includes("again"));
  });

  test("is answered when it sends several messages in one", async () => {
    const { url } = await startHttp(createWorld());
    const client = await initialize(url);
    const batch = [1, 2].map((id) => ({
      jsonrpc: "2.0",
      id,
      method: "tools/call",
      params: { name: "echo", arguments: { text: `n${id}` } },
    }));
    const text = await (await client.send(batch, client.session)).text();
    expect(text).toContain("n1");
    expect(text).toContain("n2");
  });

  test("is answered in kind when a method or its parameters do not exist", async () => {
    const { url } = await startHttp(createWorld());
    const client = await initialize(url);
    const error = async (message: object) => {
      const text = await (await client.send(message, client.session)).text();
      return JSON.parse(/^data: (.*)$/m.exec(text)?.[1] ?? text).error.code;
    };
    expect(await error({ id: 1, method: "no/such/method" })).toBe(-32601);
    expect(await error({ id: 2, method: "tools/call", params: {} })).toBe(-32602);
    expect(await error({ id: 3, method: "tools/call", params: { name: 5 } })).toBe(-32602);
    expect(await error({ id: 4, method: "tools/call", params: { name: "echo", arguments: "text" } })).toBe(-32602);
    expect(await error({ id: 5, method: "resources/read", params: {} })).toBe(-32602);
    expect((await client.send({ id: 6 }, client.session)).status).toBe(400);
  });

  test("is let go when it says goodbye, and when it was silent for long", async () => {
    const world = createWorld();
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const { url } = await startHttp(world);
    const leaving = await initialize(url);
    const bye = await fetch(url, { method: "DELETE", headers: { ...headers, ...leaving.session } });
    expect(bye.status).toBe(200);
    expect((await leaving.call(1, "echo", { text: "a" })).status).toBe(404);

    const silent = await initialize(url);
    const working = await initialize(url);
    const listening = await initialize(url);
    const work = working.call(1, "block", { tag: "long" });
    const stream = await fetch(url, { headers: { ...headers, ...listening.session } });
    await until(() => world.seen.began.includes("long"));
    vi.advanceTimersByTime(60 * 60_000);
    expect((await silent.call(1, "echo", { text: "a" })).status).toBe(404);
    expect((await listening.call(1, "echo", { text: "a" })).status).toBe(200);
    world.seen.release("long");
    expect(await (await work).text()).toContain("ended long");
    await stream.body?.cancel();
  });

  test("is accepted at the limit: the owner with the most connections loses its least recently used one", async () => {
    const options = { authToken: ["ann=token-of-ann", "bob=token-of-bob"] };
    const { url } = await startHttp(createWorld({ options }), { legacy: { max: 3 } });
    const bob = await initialize(url, "token-of-bob");
    const old = await initialize(url, "token-of-ann");
    const young = await initialize(url, "token-of-ann");
    await (await old.call(1, "echo", { text: "a" })).text();
    const newest = await initialize(url, "token-of-bob");
    const status = async (client: typeof bob) => (await client.call(2, "echo", { text: "a" })).status;
    expect(await status(young)).toBe(404);
    expect([await status(bob), await status(old), await status(newest)]).toEqual([200, 200, 200]);
  });

  test("is refused with retry-after when all others are busy", async () => {
    const world = createWorld();
    const { url } = await startHttp(world, { legacy: { max: 1 } });
    const busy = await initialize(url);
    const work = busy.call(1, "block", { tag: "busy" });
    await until(() => world.seen.began.length > 0);
    expect((await initialize(url)).id).toBe("");
    world.seen.release("busy");
    expect(await (await work).text()).toContain("ended busy");
  });
});

test("answers start at once, and tell proxies not to buffer them", async () => {
  const world = createWorld();
  const { url } = await startHttp(world);
  const client = await initialize(url);
  const response = await client.call(1, "block", { tag: "slow" });
  expect(world.seen.ended).toEqual([]);
  expect(response.headers.get("x-accel-buffering")).toBe("no");
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  await response.body?.cancel();
});
