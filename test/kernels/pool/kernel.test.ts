import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { Sessions } from "../../../src/engine/sessions/sessions.ts";
import { Sandbox } from "../../../src/kernels/pool/client.ts";
import { createPoolProvider } from "../../../src/kernels/pool/provider.ts";
import { createLog } from "../../../src/log.ts";
import { NOT_RUN_HEADER } from "../../../src/sandbox/protocol.ts";
import { openLocalWorkspace } from "../../../src/workspace/local/workspace.ts";
import { failure, result, run, text } from "../../contracts/kernel.ts";
import { type FakeSandbox, json, startFakeSandbox, success } from "../../support/fake-sandbox.ts";
import { openMemoryStore } from "../../support/memory-store.ts";

const PNG = "iVBORw0KGgo=";
const log = createLog("silent");

async function startPool(count: number) {
  const sandboxes: FakeSandbox[] = [];
  for (let i = 0; i < count; i++) sandboxes.push(await startFakeSandbox());
  sandboxes.sort((one, other) => Number(one.name) - Number(other.name));
  const urls = sandboxes.map(({ url }) => url);
  const provider = await createPoolProvider({ urls, coolDownMs: 60_000, log });
  const store = openMemoryStore();
  const sessions = new Sessions({
    provider,
    store,
    openWorkspace: openLocalWorkspace,
    log,
    defaultTimeoutMs: 30_000,
    ttlMs: 0,
    keepDays: 7,
    maxSessions: 50,
    warm: 0,
  });
  onTestFinished(async () => {
    await sessions.dispose();
    await store.dispose();
  });
  const statusOf = (sandbox: FakeSandbox) => provider.backends?.status().ports[sandbox.name];
  return { sandboxes, provider, sessions, statusOf };
}

async function startKernel() {
  const { sandboxes, provider } = await startPool(1);
  const dir = mkdtempSync(join(tmpdir(), "cellwright-pool-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const kernel = await provider.start(
    { language: "python" },
    { sessionId: "s1", workspaceDir: dir, runDir: dir, signal: new AbortController().signal },
  );
  onTestFinished(() => kernel.dispose());
  const [sandbox] = sandboxes;
  if (!sandbox) throw new Error("there is no sandbox");
  return { kernel, sandbox, provider };
}

/** Answers later, when the test says so. */
function held() {
  const waiting: ServerResponse[] = [];
  let arrived!: () => void;
  const arrival = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  return {
    arrival,
    waiting,
    answer: (_call: unknown, _request: unknown, response: ServerResponse) => {
      waiting.push(response);
      arrived();
    },
  };
}

describe("on the wire", () => {
  test("a cell is one POST with exactly session_id, code and timeout", async () => {
    const { kernel, sandbox } = await startKernel();
    await run(kernel, "print('hi')", { timeoutMs: 30_000 });
    await run(kernel, "x", { timeoutMs: 1500 });
    expect(sandbox.calls.map(({ method, path }) => `${method} ${path}`)).toEqual(
      Array(2).fill("POST /jupyter_sandbox"),
    );
    expect(sandbox.calls.map(({ body }) => Object.keys(body).sort())).toEqual(
      Array(2).fill(["code", "session_id", "timeout"]),
    );
    expect(sandbox.calls.map(({ body }) => [body.code, body.timeout])).toEqual([
      ["print('hi')", 30],
      ["x", 1.5],
    ]);
    expect(new Set(sandbox.calls.map(({ body }) => body.session_id)).size).toBe(1);
  });

  test("variables come before the code in a request of their own, as nothing that could be code", async () => {
    const { kernel, sandbox } = await startKernel();
    const hostile = `"""\n'); import os # é\u{1f600}`;
    await run(kernel, "x", { variables: { x: { deep: [hostile, null, 1.5] }, image_0: new Uint8Array([0, 255]) } });
    const [assignment, code] = sandbox.codes();
    expect(code).toBe("x");
    expect(assignment).not.toContain("import os");
    const [, encoded = ""] = /decode\("([A-Za-z0-9+/=]*)"\)/.exec(String(assignment)) ?? [];
    expect(JSON.parse(Buffer.from(encoded, "base64").toString())).toEqual({
      values: { x: { deep: [hostile, null, 1.5] } },
      bytes: { image_0: "AP8=" },
    });
  });

  test("variables that cannot be set keep the code from being run", async () => {
    const { kernel, sandbox } = await startKernel();
    sandbox.answer = json({ status: "error", error: "MemoryError: no room", output: { stdout: "", stderr: "" } });
    const events = await run(kernel, "x", { variables: { x: 1 } });
    expect(failure(events)).toMatchObject({ name: "MemoryError" });
    expect(sandbox.calls).toHaveLength(1);
  });

  test("a cell without code is no request", async () => {
    const { kernel, sandbox } = await startKernel();
    expect(await run(kernel, " \n")).toEqual([{ type: "done", status: "ok", executionCount: 1 }]);
    expect(sandbox.calls).toEqual([]);
  });

  test("the end of a session is sent to the sandbox, once, if it was used", async () => {
    const { kernel, sandbox } = await startKernel();
    await run(kernel, "1");
    await kernel.dispose();
    await kernel.dispose();
    const [ran, cleared] = sandbox.calls;
    expect(cleared).toEqual({ method: "POST", path: "/clear_session", body: { session_id: ran?.body.session_id } });
    expect(sandbox.calls).toHaveLength(2);

    const unused = await startKernel();
    await unused.kernel.dispose();
    expect(unused.sandbox.calls).toEqual([]);
  });
});

describe("a reply", () => {
  test("becomes events in the order people expect", async () => {
    const { kernel, sandbox } = await startKernel();
    sandbox.answer = success({ stdout: "out\n", stderr: "err\n", images: [PNG], result: "42" });
    expect(await run(kernel, "1")).toEqual([
      { type: "stream", name: "stdout", text: "out\n" },
      { type: "stream", name: "stderr", text: "err\n" },
      { type: "display", data: { "image/png": PNG } },
      { type: "result", data: { "text/plain": "42" } },
      expect.objectContaining({ type: "done", status: "ok", executionCount: 1 }),
    ]);
  });

  test("of an exception has its name, message and traceback, and what the cell wrote before", async () => {
    const { kernel, sandbox } = await startKernel();
    const traceback = ["Traceback (most recent call last):", '  File "<cell 1>", line 1', "ValueError: no: way"];
    const output = { stdout: "", stderr: `warned\n${traceback.join("\n")}\n`, images: [] };
    sandbox.answer = json({ status: "error", error: "ValueError: no: way", output });
    const events = await run(kernel, "1");
    expect(failure(events)).toEqual({ type: "error", name: "ValueError", message: "no: way", traceback });
    expect(text(events, "stderr")).toBe("warned\n");
    expect(events.at(-1)).toMatchObject({ type: "done", status: "error" });
  });

  test("of an exception without a traceback keeps stderr as it is", async () => {
    const { kernel, sandbox } = await startKernel();
    const output = { stdout: "", stderr: "something\n", images: [] };
    for (const [error, name, message] of [
      ["No code provided", "Error", "No code provided"],
      ["KeyError", "KeyError", ""],
      [undefined, "Error", expect.stringContaining("gave no reason")],
    ] as const) {
      sandbox.answer = json({ status: "error", error, output });
      const events = await run(kernel, "1");
      expect(failure(events)).toMatchObject({ name, message, traceback: [] });
      expect(text(events, "stderr")).toBe("something\n");
    }
  });

  test.each([
    ["a text as output", json({ status: "success", output: "hi" })],
    ["no status", json({ output: { stdout: "", stderr: "", images: [] } })],
    ["another status", json({ status: "maybe", output: {} })],
    ["images that are none", json({ status: "success", output: { images: ["<script>"] } })],
    ["a list", json([])],
    ["null", json(null)],
    [
      "a page",
      (_call: unknown, _request: unknown, response: ServerResponse) => void response.end("<html>hello</html>"),
    ],
    ["nothing", (_call: unknown, _request: unknown, response: ServerResponse) => void response.end()],
  ])("with %s is an error, and the next cell runs", async (_, answer) => {
    const { kernel, sandbox, provider } = await startKernel();
    sandbox.answer = answer;
    const events = await run(kernel, "1");
    expect(failure(events)).toMatchObject({ name: "SandboxError", message: expect.stringContaining("may have run") });
    expect(events.at(-1)).toMatchObject({ type: "done", status: "error" });
    expect(provider.backends?.status().ports[sandbox.name]?.error_count).toBe(1);
    sandbox.answer = success({ result: "2" });
    expect(result(await run(kernel, "2"))).toBe("2");
    expect(provider.backends?.status().ports[sandbox.name]?.error_count).toBe(0);
    expect(sandbox.codes()).toEqual(["1", "2"]);
  });

  test("that refuses says so, and is no failure of the sandbox", async () => {
    const { kernel, sandbox, provider } = await startKernel();
    sandbox.answer = json({ status: "error", error: "All sessions are running.", output: {} }, 429);
    const { message = "" } = failure(await run(kernel, "1")) ?? {};
    expect(message).toContain("All sessions are running.");
    expect(message).toContain("was not run");
    expect(provider.backends?.status().ports[sandbox.name]?.error_count).toBe(0);
  });

  test("that does not come within the limit is a failure", async () => {
    const fake = await startFakeSandbox();
    fake.answer = () => {};
    const sandbox = new Sandbox("slow", new URL(fake.url));
    const body = { session_id: "s", code: "1", timeout: 1 };
    await expect(sandbox.run(await sandbox.connect(), body, { limitMs: 50 })).rejects.toThrow(
      "Sandbox slow did not answer within 0.05 s.",
    );
  });
});

describe("sessions of a pool", () => {
  test("a sandbox that refuses connections is passed over within the call", async () => {
    const { sandboxes, sessions, statusOf } = await startPool(2);
    const [first, second] = sandboxes as [FakeSandbox, FakeSandbox];
    await first.close();
    const session = await sessions.create("me");
    const { status, notices } = await session.execute("1").finished;
    expect([status, notices]).toEqual(["ok", []]);
    expect(second.codes()).toEqual(["1"]);
    expect(statusOf(first)?.error_count).toBe(1);
  });

  test.each([
    ["answers 500", json({ detail: "oops" }, 500)],
    ["closes the connection", (_call: unknown, request: { socket: { destroy(): void } }) => request.socket.destroy()],
    [
      "stops in mid-answer",
      (_call: unknown, _request: unknown, response: ServerResponse) => {
        response.writeHead(200, { "content-length": 1000 });
        response.write("{", () => response.destroy());
      },
    ],
  ])("a cell whose sandbox %s is not sent again, to any sandbox", async (_, answer) => {
    const { sandboxes, sessions, statusOf } = await startPool(2);
    const [first, second] = sandboxes as [FakeSandbox, FakeSandbox];
    first.answer = answer as never;
    const session = await sessions.create("me");
    const { status, outputs } = await session.execute("1").finished;
    expect(status).toBe("error");
    expect(outputs).toMatchObject([{ name: "SandboxError", message: expect.stringContaining("not retried") }]);
    expect([first.codes(), second.codes()]).toEqual([["1"], []]);
    expect(statusOf(first)?.error_count).toBe(1);
    first.answer = success({});
    expect((await session.execute("2").finished).status).toBe("ok");
    expect(first.codes()).toEqual(["1", "2"]);
  });

  test("a session stays on its sandbox, and two cells at once are one active session", async () => {
    const { sandboxes, sessions, statusOf } = await startPool(2);
    const [first, second] = sandboxes as [FakeSandbox, FakeSandbox];
    const session = await sessions.create("me");
    await session.execute("1").finished;
    const { arrival, answer, waiting } = held();
    first.answer = answer;
    const both = [session.execute("2"), session.execute("3")];
    await arrival;
    expect(statusOf(first)).toMatchObject({ status: "busy", active_sessions: 1 });
    expect(first.codes()).toEqual(["1", "2"]);
    first.answer = success({});
    for (const response of waiting) success({})({} as never, {} as never, response);
    for (const cell of both) expect((await cell.finished).status).toBe("ok");
    expect(first.codes()).toEqual(["1", "2", "3"]);
    expect(second.codes()).toEqual([]);
    expect(statusOf(first)).toMatchObject({ status: "idle", active_sessions: 0 });
  });

  test("a session whose sandbox is gone goes on elsewhere, and its reply says so once", async () => {
    const { sandboxes, sessions } = await startPool(2);
    const [first, second] = sandboxes as [FakeSandbox, FakeSandbox];
    const session = await sessions.create("me");
    await session.execute("x = 1").finished;
    await first.close();
    const moved = await session.execute("2").finished;
    expect(moved.status).toBe("ok");
    expect(moved.notices.join()).toContain(`Sandbox ${first.name} cannot be reached`);
    expect(moved.notices.join()).toContain("variables from before are gone");
    expect((await session.execute("3").finished).notices).toEqual([]);
    expect(second.codes()).toEqual(["2", "3"]);
  });

  test("a cell that its sandbox ended without running is sent to another one, unless variables are lost by that", async () => {
    const leaving: FakeSandbox["answer"] = (_call, _request, response) => {
      response.writeHead(503, { "content-type": "application/json", [NOT_RUN_HEADER]: "shutting_down" });
      response.end(JSON.stringify({ status: "error", error: "Cellwright is shutting down." }));
    };
    const { sandboxes, sessions } = await startPool(2);
    const [first, second] = sandboxes as [FakeSandbox, FakeSandbox];
    first.answer = leaving;
    const session = await sessions.create("me");
    expect(await session.execute("1").finished).toMatchObject({ status: "ok", notices: [] });
    expect([first.codes(), second.codes()]).toEqual([["1"], ["1"]]);

    first.answer = success({});
    second.answer = leaving;
    const refused = await session.execute("2").finished;
    expect(refused).toMatchObject({ status: "error", notices: [] });
    expect(refused.outputs).toMatchObject([
      { message: expect.stringMatching(/shutting down\. The cell was not run\.$/) },
    ]);
    const moved = await session.execute("3").finished;
    expect(moved.notices.join()).toMatch(/was shut down\..*variables from before are gone/);
    expect([first.codes(), second.codes()]).toEqual([
      ["1", "3"],
      ["1", "2"],
    ]);

    first.answer = leaving;
    const fresh = await sessions.create("me");
    expect((await fresh.execute("4").finished).outputs).toMatchObject([{ name: "SandboxError" }]);
    first.answer = success({});
    expect(await fresh.execute("5").finished).toMatchObject({ status: "ok", notices: [] });
  });

  test("a session that moved does not find variables where it was before", async () => {
    const { sandboxes, sessions } = await startPool(1);
    const [only] = sandboxes as [FakeSandbox];
    const session = await sessions.create("me");
    await session.execute("1").finished;
    await session.reset();
    await session.execute("2").finished;
    const names = only.calls.filter(({ path }) => path === "/jupyter_sandbox").map(({ body }) => body.session_id);
    expect(new Set(names).size).toBe(2);
  });

  test("a session on a sandbox that is out moves with a notice; one without state moves without", async () => {
    const { sandboxes, sessions, statusOf } = await startPool(2);
    const [first, second] = sandboxes as [FakeSandbox, FakeSandbox];
    const session = await sessions.create("me");
    await session.execute("x = 1").finished;
    first.answer = json({}, 500);
    for (let i = 0; i < 3; i++) await session.execute("x").finished;
    expect(statusOf(first)).toMatchObject({ status: "error", error_count: 3 });
    const moved = await session.execute("4").finished;
    expect(moved.notices.join()).toMatch(/failed several times.*variables from before are gone/);
    expect(second.codes()).toEqual(["4"]);
    const fresh = await sessions.create("me");
    expect((await fresh.execute("5").finished).notices).toEqual([]);
    expect(second.codes()).toEqual(["4", "5"]);
  });

  test("when none can be reached, one sentence names them all", async () => {
    const { sandboxes, sessions } = await startPool(2);
    for (const sandbox of sandboxes) await sandbox.close();
    const session = await sessions.create("me");
    const failed = session.execute("1").finished;
    await expect(failed).rejects.toMatchObject({ code: "server_unreachable" });
    for (const { name } of sandboxes) await expect(failed).rejects.toThrow(`Sandbox ${name} cannot be reached`);
  });

  test("when all are drained, new sessions are refused and old ones go on", async () => {
    const { sandboxes, sessions, provider } = await startPool(2);
    const session = await sessions.create("me");
    await session.execute("1").finished;
    for (const { name } of sandboxes) provider.backends?.drain(name, true);
    expect((await session.execute("2").finished).status).toBe("ok");
    const fresh = await sessions.create("me");
    await expect(fresh.execute("3").finished).rejects.toThrow("all are being drained");
  });

  test("stopping a cell drops its connection and clears the session there", async () => {
    const { sandboxes, sessions } = await startPool(1);
    const [only] = sandboxes as [FakeSandbox];
    const { arrival, answer, waiting } = held();
    only.answer = (call, request, response) =>
      call.path === "/jupyter_sandbox"
        ? answer(call, request, response)
        : json({ status: "success" })(call, request, response);
    const session = await sessions.create("me");
    const cell = session.execute("while True: pass");
    await arrival;
    const [response] = waiting;
    const dropped = response ? once(response, "close") : undefined;
    const ended = await session.interrupt();
    await dropped;
    expect(ended?.status).toBe("interrupted");
    expect((await cell.finished).notices.join()).toContain("state was lost");
    expect(only.calls.at(-1)).toMatchObject({
      path: "/clear_session",
      body: { session_id: only.calls[0]?.body.session_id },
    });
  });

  test("closed sessions are not counted any more", async () => {
    const { sessions, provider } = await startPool(1);
    const session = await sessions.create("me");
    await session.execute("1").finished;
    expect(provider.backends?.status().total_sessions).toBe(1);
    await sessions.close(session);
    expect(provider.backends?.status().total_sessions).toBe(0);
  });

  test("files and shells are refused", async () => {
    const { sessions } = await startPool(1);
    const session = await sessions.create("me");
    await expect(session.workspace.list(".")).rejects.toMatchObject({ code: "not_supported" });
    await expect(session.workspace.write("a", new Uint8Array())).rejects.toMatchObject({ code: "not_supported" });
    await expect(session.execute("ls", { language: "bash" }).finished).rejects.toMatchObject({
      code: "kernel_not_found",
    });
    await expect(session.execute("1", { env: "mine" }).finished).rejects.toMatchObject({ code: "kernel_not_found" });
  });
});

describe("addresses", () => {
  const names = async (urls: string[]) =>
    Object.keys((await createPoolProvider({ urls, coolDownMs: 1, log })).backends?.status().ports ?? {});

  test("are known by their port on one host, else by host and port", async () => {
    expect(await names(["http://127.0.0.1:18901", "http://127.0.0.1:18902/"])).toEqual(["18901", "18902"]);
    expect(await names(["http://a.example:1", "https://b.example/sandbox/"])).toEqual([
      "a.example:1",
      "b.example:443/sandbox",
    ]);
  });

  test("that are none, or hold a password, are refused without showing it", async () => {
    await expect(names(["127.0.0.1:18901"])).rejects.toThrow("is not an address");
    const refused = names(["http://me:hush@a.example"]);
    await expect(refused).rejects.toThrow("--pool-url");
    await expect(refused).rejects.not.toThrow("hush");
  });
});
