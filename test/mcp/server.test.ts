import { describe, expect, test, vi } from "vitest";
import { until } from "../support/until.ts";
import { clientKinds, connect, createWorld, startHttp, startStdio, textOf, type World, wires } from "./support.ts";

const combinations = clientKinds.flatMap((kind) => wires.map((wire) => ({ kind, wire })));

async function start(wire: (typeof wires)[number], world: World) {
  return wire === "http" ? startHttp(world) : startStdio(world);
}

describe.each(combinations)("$kind over $wire", ({ kind, wire }) => {
  test("lists tools with strict, portable schemas and hints", async () => {
    const world = createWorld();
    const client = await connect(kind, await start(wire, world));
    const tools = await client.tools();
    expect(tools.map((tool) => tool.name)).toEqual(["echo", "block", "flood", "look", "write", "fail"]);
    const echo = tools[0];
    expect(echo?.inputSchema).toEqual({
      type: "object",
      properties: {
        text: { type: "string", description: "What to say." },
        times: { type: "integer", minimum: 1, maximum: 5, default: 1, description: "How often." },
        mode: { type: "string", enum: ["plain", "loud"], description: "How." },
        target: { anyOf: [{ type: "string" }, { type: "number" }], description: "To whom." },
        extra: expect.objectContaining({ type: "object", description: "Anything." }),
      },
      required: ["text"],
      additionalProperties: false,
      ...("$defs" in (echo?.inputSchema ?? {}) ? { $defs: expect.anything() } : {}),
    });
    expect(echo?.annotations).toEqual({
      readOnlyHint: true,
      destructiveHint: false,
      idempotentHint: false,
      openWorldHint: false,
    });
    expect(tools[1]?.annotations).toMatchObject({ readOnlyHint: false, destructiveHint: true });
  });

  test("tells a model what it has here", async () => {
    const world = createWorld({ options: { memoryMb: 256, timeout: 90_000 } });
    const client = await connect(kind, await start(wire, world));
    expect(client.instructions()).toContain("Fake kernel");
    expect(client.instructions()).toContain("256 MB");
    expect(client.instructions()).toContain("90 s");
  });

  test("calls a tool", async () => {
    const world = createWorld();
    const client = await connect(kind, await start(wire, world));
    expect(textOf(await client.call("echo", { text: "hi", times: 2 }))).toBe("local: hihi undefined");
  });

  test("wrong arguments are answered with what was expected", async () => {
    const world = createWorld();
    const client = await connect(kind, await start(wire, world));
    const problem = async (args: Record<string, unknown>) => {
      const result = await client.call("echo", args);
      expect(result.isError).toBe(true);
      return textOf(result);
    };
    expect(await problem({})).toContain("`text` is missing: a string is expected.");
    expect(await problem({ text: 5 })).toContain("`text` must be a string, but a number was given.");
    expect(await problem({ text: "a", target: [] })).toContain(
      "`target` must be a string or a number, but an array was given.",
    );
    expect(await problem({ text: "a", tims: 2 })).toContain("`tims` is not an argument of echo. Did you mean `times`?");
    expect(await problem({ text: "a", zzz: 2 })).toContain(
      "`zzz` is not an argument of echo. Remove it. Its arguments",
    );
    expect(await problem({ text: "a", times: 9 })).toMatch(/`times`: .*5/);
    expect(await problem({ text: "a", mode: "soft" })).toMatch(/`mode`: .*plain.*loud/);
  });

  test("an unknown tool is a protocol error that names the likely one", async () => {
    const world = createWorld();
    const client = await connect(kind, await start(wire, world));
    await expect(client.call("ecko")).rejects.toMatchObject({
      code: -32602,
      message: expect.stringContaining("Did you mean `echo`?"),
    });
    await expect(client.call("__proto__")).rejects.toMatchObject({ code: -32602 });
  });

  test("failures are results with a code; a bug's details stay in the log", async () => {
    const world = createWorld();
    const client = await connect(kind, await start(wire, world));
    const caller = await client.call("fail", { how: "caller" });
    expect(caller.isError).toBe(true);
    expect(textOf(caller)).toContain("There is no `x`.");
    const bug = await client.call("fail", { how: "bug" });
    expect(bug.isError).toBe(true);
    expect(textOf(bug)).not.toContain("secret detail");
    const logged = world.lines.join("");
    expect(logged).toContain("secret detail");
    expect(logged).not.toContain("\u001b");
  });

  test("a running call does not hold up others on the same connection", async () => {
    const world = createWorld();
    const client = await connect(kind, await start(wire, world));
    const stop = new AbortController();
    const running = client.call("block", { tag: "long" }, { signal: stop.signal });
    running.catch(() => {});
    await until(() => world.seen.began.includes("long"));
    expect(textOf(await client.call("echo", { text: "meanwhile" }))).toContain("meanwhile");
    expect(world.seen.ended).toEqual([]);
    stop.abort();
    await expect(running).rejects.toThrow();
  });

  test("a cancelled call reaches the tool", async () => {
    const world = createWorld();
    const client = await connect(kind, await start(wire, world));
    const stop = new AbortController();
    const running = client.call("block", { tag: "cancelled" }, { signal: stop.signal });
    running.catch(() => {});
    await until(() => world.seen.began.length > 0);
    stop.abort("changed my mind");
    await expect(running).rejects.toThrow();
    await until(() => world.seen.aborted.includes("cancelled"));
    expect(textOf(await client.call("echo", { text: "after" }))).toContain("after");
  });

  test("progress is sent if requested, increasing", async () => {
    const world = createWorld();
    const client = await connect(kind, await start(wire, world));
    const progress: { progress: number; message?: string }[] = [];
    const call = client.call("block", { tag: "p" }, { onProgress: (one) => progress.push(one) });
    await until(() => progress.length >= 2);
    world.seen.release("p");
    await call;
    expect(progress.slice(0, 2).map((one) => one.message)).toEqual(["one p", "two p"]);
    expect(progress[1]?.progress).toBeGreaterThan(progress[0]?.progress ?? Number.NaN);
  });

  test("prints are sent as log messages if the client requests that level", async () => {
    const world = createWorld();
    const client = await connect(kind, await start(wire, world));
    world.seen.release("unasked", "a", "b");
    await client.call("block", { tag: "unasked" });
    const messages = await client.logs("info");
    await client.call("block", { tag: "a" });
    await until(() => messages.length >= 2);
    expect(messages.map(({ logger, data }) => `${logger}: ${data}`)).toEqual(["stdout: out a", "stderr: err a"]);
    await client.logs("warning");
    await client.call("block", { tag: "b" });
    expect(messages).toHaveLength(2);
  });

  test("a flood is passed on up to a bound", async () => {
    const world = createWorld();
    const client = await connect(kind, await start(wire, world));
    const messages = await client.logs("info");
    await client.call("flood", { chunks: 100 });
    const sent = messages.map(({ data }) => String(data)).join("");
    expect(sent.length).toBeLessThan(1_000_200);
    expect(sent).toContain("log limit reached");
  });

  test("a session of an owner is found, an unknown one is not", async () => {
    const world = createWorld();
    const client = await connect(kind, await start(wire, world));
    const id = textOf(await client.call("write", { path: "a.txt", text: "x" }));
    expect(textOf(await client.call("look", { session_id: id }))).toBe(`found ${id}`);
    expect(textOf(await client.call("look", { session_id: "nope" }))).toContain("There is no session `nope`.");
  });
});

describe("a server", () => {
  test("prepares for a first cell only after the first answer", async () => {
    const order: string[] = [];
    const world = createWorld({ onFirstUse: () => order.push("first use") });
    const { toServer, fromServer } = startStdio(world);
    fromServer.setEncoding("utf8");
    fromServer.on("data", (line: string) => order.push(line.includes('"result"') ? "answered" : line));
    const send = (message: object) => toServer.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } };
    send({ id: 1, method: "initialize", params });
    await until(() => order.length === 1);
    send({ method: "notifications/initialized" });
    await until(() => order.length === 2);
    send({ id: 2, method: "tools/list" });
    await until(() => order.length === 3);
    expect(order).toEqual(["answered", "first use", "answered"]);
  });

  test("a client that only lists tools sets off that preparation too", async () => {
    const onFirstUse = vi.fn();
    const world = createWorld({ onFirstUse });
    const client = await connect("v2 modern", startStdio(world));
    expect(onFirstUse).not.toHaveBeenCalled();
    await client.tools();
    await until(() => onFirstUse.mock.calls.length === 1);
  });

  test("a silent tool is reported as alive", async () => {
    const world = createWorld();
    const client = await connect("v1", startStdio(world));
    const progress: string[] = [];
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    try {
      const stop = new AbortController();
      const running = client.call(
        "block",
        { tag: "quiet" },
        { onProgress: ({ message }) => progress.push(message ?? ""), signal: stop.signal },
      );
      running.catch(() => {});
      await until(() => progress.length === 2);
      vi.advanceTimersByTime(30_000);
      await until(() => progress.length >= 5);
      expect(progress[4]).toBe("two quiet");
      stop.abort();
    } finally {
      vi.useRealTimers();
    }
  });

  test("keys that reach for prototypes are refused or ignored, and change nothing", async () => {
    const world = createWorld();
    const { url } = await startHttp(world);
    const { toServer, fromServer } = startStdio(world);
    fromServer.setEncoding("utf8");
    const lines: string[] = [];
    fromServer.on("data", (line: string) => lines.push(line));
    const hostile = [
      '{"text":"a","__proto__":{"polluted":1}}',
      '{"text":"a","constructor":{"prototype":{"polluted":1}}}',
      '{"text":"a","extra":{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}}',
    ];
    for (const [id, args] of hostile.entries()) {
      toServer.write(
        `{"jsonrpc":"2.0","id":${id},"method":"tools/call","__proto__":{"polluted":1},"params":{"name":"echo","__proto__":{"polluted":1},"arguments":${args}}}\n`,
      );
    }
    await until(() => lines.join("").split("\n").length > hostile.length);
    const client = await connect("v1", { url });
    expect(textOf(await client.call("echo", { text: "fine" }))).toContain("fine");
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    expect(textOf(await client.call("echo", JSON.parse(hostile[1] ?? "")))).toContain(
      "`constructor` is not an argument",
    );
  });
});
