import { describe, expect, onTestFinished, test } from "vitest";
import { Sessions } from "../../src/engine/sessions/sessions.ts";
import type { ExecutionEvent } from "../../src/execution.ts";
import { createHttpApp } from "../../src/http/app.ts";
import { createSandboxRoutes } from "../../src/http/sandbox-api.ts";
import { createStatusRoutes } from "../../src/http/status.ts";
import { Balancer } from "../../src/kernels/balancer.ts";
import type { KernelProvider } from "../../src/kernels/kernel.ts";
import { createLog } from "../../src/log.ts";
import { defaultOptions } from "../../src/options/options.ts";
import { NOT_RUN_HEADER } from "../../src/sandbox/protocol.ts";
import { openLocalWorkspace } from "../../src/workspace/local/workspace.ts";
import { createFakeProvider } from "../support/fake-kernel.ts";
import { createHandProvider } from "../support/hand-kernel.ts";
import { openMemoryStore } from "../support/memory-store.ts";
import { until } from "../support/until.ts";

interface Reply {
  status: string;
  error?: string;
  execution_time?: number;
  output: { stdout: string; stderr: string; images: string[]; result?: string };
}

async function startApi({
  provider = createFakeProvider(),
  authToken = [],
  maxSessions = 20,
}: {
  provider?: KernelProvider;
  authToken?: string[];
  maxSessions?: number;
} = {}) {
  const log = createLog("silent");
  const store = openMemoryStore();
  const sessions = new Sessions({
    provider,
    store,
    openWorkspace: openLocalWorkspace,
    log,
    defaultTimeoutMs: 10_000,
    ttlMs: 0,
    keepDays: 7,
    maxSessions,
    warm: 0,
  });
  const backends = new Balancer(["18901", "18902"], { coolDownMs: 1000 });
  const options = { ...defaultOptions(), host: "127.0.0.1", port: 0, authToken };
  const routes = {
    ...createSandboxRoutes({ sessions, log, maxRequestBytes: 100_000 }),
    ...createStatusRoutes(backends),
  };
  const app = createHttpApp({ options, routes, log });
  const { url } = await app.listen();
  onTestFinished(async () => {
    await sessions.dispose();
    await app.close();
    await store.dispose();
  });
  const json = { "content-type": "application/json" };
  const send = (path: string, body: string, headers = {}, signal?: AbortSignal) =>
    fetch(url + path, { method: "POST", body, headers: { ...json, ...headers }, ...(signal ? { signal } : {}) });
  const post = async (path: string, body: object, headers = {}) =>
    (await (await send(path, JSON.stringify(body), headers)).json()) as Reply;
  const run = (code: string, session_id = "s") => post("/jupyter_sandbox", { code, session_id, timeout: 30 });
  return { url, send, post, run, sessions, store, backends };
}

/** A cell that shows exactly these outputs. */
async function showing(...events: ExecutionEvent[]): Promise<Reply> {
  const provider = createHandProvider();
  const { run } = await startApi({ provider });
  provider.show(...events, { type: "done", status: "ok", executionCount: 1 });
  return run("x");
}

describe("a request", () => {
  test("runs in the session of that name, which is made by the first one", async () => {
    const { run, sessions } = await startApi();
    expect(await run("print hi")).toEqual({
      status: "success",
      execution_time: expect.any(Number),
      output: { stdout: "hi\n", stderr: "", images: [] },
    });
    expect((await run("count")).output.stdout).toBe("2\n");
    expect((await run("count", "other")).output.stdout).toBe("1\n");
    expect((await sessions.list("local")).map(({ record }) => record.name).sort()).toEqual(["other", "s"]);
  });

  test("without a name is for the default session", async () => {
    const { post, run } = await startApi();
    expect((await post("/jupyter_sandbox", { code: "count" })).output.stdout).toBe("1\n");
    expect((await run("count", "JupyterSandboxDefault")).output.stdout).toBe("2\n");
  });

  test("two first ones for a name at once make one session, and run one after another", async () => {
    const { run, sessions } = await startApi();
    const counts = await Promise.all(Array.from({ length: 8 }, () => run("sleep 5\ncount")));
    expect(counts.map(({ output }) => output.stdout).sort()).toEqual(
      ["1", "2", "3", "4", "5", "6", "7", "8"].map((n) => `${n}\n`),
    );
    expect(await sessions.list("local")).toHaveLength(1);
  });

  test("any text is a name", async () => {
    const { run } = await startApi();
    const names = [
      "0",
      "",
      " ",
      "a/b",
      "../..",
      "a\\b",
      "a%2Fb",
      "\0",
      "x".repeat(10_000),
      "x".repeat(10_001),
      "é\n",
      "__proto__",
    ];
    for (const name of names) expect((await run("count", name)).output.stdout, name.slice(0, 10)).toBe("1\n");
    for (const name of names) expect((await run("count", name)).output.stdout, name.slice(0, 10)).toBe("2\n");
  });

  test("of one owner does not reach the sessions of another, and of a stranger reaches nothing", async () => {
    const { post, send } = await startApi({ authToken: ["ann=token-a", "bob=token-b"] });
    const as = (token: string) => ({ authorization: `Bearer ${token}` });
    const body = { code: "count", session_id: "s" };
    expect((await post("/jupyter_sandbox", body, as("token-a"))).output.stdout).toBe("1\n");
    expect((await post("/jupyter_sandbox", body, as("token-b"))).output.stdout).toBe("1\n");
    expect((await post("/clear_session", body, as("token-b"))).status).toBe("success");
    expect((await post("/jupyter_sandbox", body, as("token-a"))).output.stdout).toBe("2\n");
    for (const path of ["/jupyter_sandbox", "/clear_session", "/drain"]) {
      expect((await send(path, "{}")).status, path).toBe(401);
    }
  });

  test("without code is refused with the reason", async () => {
    const { post } = await startApi();
    for (const body of [{ code: "" }, { code: " \n" }, {}, { code: null }]) {
      expect(await post("/jupyter_sandbox", body)).toEqual({
        status: "error",
        error: "No code provided",
        output: { stdout: "", stderr: "", images: [] },
      });
    }
  });

  test.each([
    ["{", "not JSON"],
    ["", "not JSON"],
    ["[]", "JSON object"],
    ["null", "JSON object"],
    ['{"code":1}', "`code` must be a text"],
    ['{"code":"x","session_id":{}}', "`session_id` must be"],
    ['{"code":"x","timeout":0}', "`timeout` must be more than 0"],
    ['{"code":"x","timeout":-1}', "`timeout` must be more than 0"],
    ['{"code":"x","timeout":"x"}', "`timeout` must be a number"],
    ['{"code":"x","timeout":1e300}', "`timeout` must be at most"],
  ])("that is wrong gets 400 and a sentence: %s", async (body, sentence) => {
    const { send, sessions } = await startApi();
    const response = await send("/jupyter_sandbox", body);
    expect(response.status).toBe(400);
    const { status, error } = (await response.json()) as Reply;
    expect(status).toBe("error");
    expect(error).toContain(sentence);
    expect(await sessions.list("local")).toEqual([]);
  });

  test("that is too large, or no POST, is refused", async () => {
    const { send, url } = await startApi();
    expect((await send("/jupyter_sandbox", JSON.stringify({ code: "x".repeat(200_000) }))).status).toBe(413);
    expect((await fetch(`${url}/jupyter_sandbox`)).status).toBe(405);
  });

  test("for which there is no room says so with 429", async () => {
    const { run, send } = await startApi({ maxSessions: 1 });
    await run("print a", "one");
    const response = await send("/jupyter_sandbox", '{"code":"print b","session_id":"two"}');
    expect(response.status).toBe(429);
    expect(((await response.json()) as Reply).error).toContain("--max-sessions");
  });

  test("that comes when all ends, or waits for a kernel then, is answered with the word that it was not run", async () => {
    let starting!: () => void;
    const started = new Promise<void>((resolve) => {
      starting = resolve;
    });
    const start: KernelProvider["start"] = (_spec, { signal }) =>
      new Promise((_, reject) => {
        starting();
        signal.addEventListener("abort", () => reject(signal.reason));
      });
    const { send, sessions } = await startApi({ provider: { ...createFakeProvider(), start } });
    const waiting = send("/jupyter_sandbox", '{"code":"x"}');
    await started;
    await sessions.dispose();
    for (const response of [await waiting, await send("/jupyter_sandbox", '{"code":"x"}')]) {
      expect([response.status, response.headers.get(NOT_RUN_HEADER)]).toEqual([503, "shutting_down"]);
      expect(((await response.json()) as Reply).error).toContain("Nothing was run.");
    }
  });

  test("whose client disconnects stops its cell, and the next reply reports the loss", async () => {
    const provider = createHandProvider();
    const { send, run, sessions } = await startApi({ provider });
    const gone = new AbortController();
    const request = send("/jupyter_sandbox", '{"code":"x","session_id":"s","timeout":60}', {}, gone.signal);
    const cell = await runningCell(sessions);
    gone.abort();
    await expect(request).rejects.toThrow();
    expect((await cell?.finished)?.status).toBe("interrupted");
    provider.print("next\n");
    provider.end();
    const { output } = await run("y");
    expect(output.stdout).toBe("next\n");
    expect(output.stderr).toContain("cancelled");
    provider.end();
    expect((await run("z")).output.stderr).toBe("");
  });
});

describe("a reply", () => {
  test("has the value of the last expression, pictures once each, and no colours", async () => {
    const png = { "image/png": "iVBO\nRw0K\n", "text/plain": "<Figure>" };
    expect(
      await showing(
        { type: "stream", name: "stdout", text: "\u001b[31mred\u001b[0m\n" },
        { type: "display", data: png },
        { type: "display", data: { "text/plain": "'shown'" } },
        { type: "result", data: { "text/plain": "\u001b[1m42\u001b[0m" } },
      ),
    ).toMatchObject({
      status: "success",
      output: { stdout: "red\n'shown'\n", stderr: "", images: ["iVBORw0K"], result: "42" },
    });
  });

  test("of a failed cell has what it wrote, its traceback, and the error in one line", async () => {
    const { run } = await startApi();
    expect(await run("print before\nerror wrong")).toMatchObject({
      status: "error",
      error: "ValueError: wrong",
      output: { stdout: "before\n", stderr: "ValueError: wrong\n", images: [] },
    });
  });

  test("of a cell that took too long keeps what it printed", async () => {
    const { post, run } = await startApi();
    const body = { code: "print a\nsleep 60000", session_id: "s", timeout: 0.2 };
    const { status, error, output } = await post("/jupyter_sandbox", body);
    expect([status, error]).toEqual(["error", "TimeOutError: code execution timed out"]);
    expect(output.stdout).toBe("a\n");
    expect(output.stderr).toContain("TimeOutError: code execution timed out");
    expect((await run("count")).output.stdout).toBe("2\n");
  });

  test("of a cell that lost its kernel says so; so does the next, if the kernel died in between", async () => {
    const { run } = await startApi();
    const died = await run("die");
    expect(died.status).toBe("error");
    expect(died.output.stderr).toContain("state was lost");
    expect((await run("count")).output.stdout).toBe("1\n");
  });
});

describe("/clear_session", () => {
  test("ends the session and its cells; the next request starts a new one", async () => {
    const { run, post, sessions } = await startApi();
    await run("count");
    const [session] = sessions.opened("local");
    expect(await post("/clear_session", { session_id: "s" })).toEqual({ status: "success" });
    expect((await run("count")).output.stdout).toBe("1\n");
    expect(sessions.opened("local").map(({ id }) => id)).not.toContain(session?.id);
    const running = run("sleep 60000");
    await runningCell(sessions);
    await post("/clear_session", { session_id: "s" });
    expect((await running).status).toBe("error");
  });

  test("of an unknown session succeeds", async () => {
    const { post, sessions } = await startApi();
    expect(await post("/clear_session", { session_id: "nobody" })).toEqual({ status: "success" });
    expect(await sessions.list("local")).toEqual([]);
  });

  test("keeps the files of a session that was made in another way", async () => {
    const { run, post, sessions, store } = await startApi();
    const session = await sessions.create("local", { name: "s" });
    expect((await run("count")).output.stdout).toBe("1\n");
    await post("/clear_session", { session_id: "s" });
    expect((await store.sessions()).map(({ id }) => id)).toEqual([session.id]);
    await run("count", "ours");
    await post("/clear_session", { session_id: "ours" });
    expect((await store.sessions()).map(({ id }) => id)).toEqual([session.id]);
  });

  test("a session that was closed in another way is followed by a new one", async () => {
    const { run, sessions } = await startApi();
    await run("count");
    for (const session of sessions.opened("local")) await sessions.close(session);
    expect((await run("count")).output.stdout).toBe("1\n");
  });
});

describe("/status and /drain", () => {
  test("show the backends, and take one out and in again", async () => {
    const { url, send, backends } = await startApi();
    const status = async () => (await (await fetch(`${url}/status`)).json()) as ReturnType<Balancer["status"]>;
    expect(await status()).toEqual(backends.status());
    const drained = await send("/drain", '{"backend":18901,"draining":true}');
    expect(drained.status).toBe(200);
    expect((await status()).ports["18901"]?.status).toBe("draining");
    await send("/drain", '{"backend":"18901","draining":false}');
    expect((await status()).ports["18901"]?.status).toBe("idle");
  });

  test("refuse what they do not know", async () => {
    const { url, send } = await startApi();
    expect((await send("/drain", '{"backend":"1"}')).status).toBe(404);
    for (const body of ["", "{}", "[]", '{"backend":"18901","draining":"yes"}']) {
      expect((await send("/drain", body)).status, body).toBe(400);
    }
    expect((await send("/status", "")).status).toBe(405);
    expect((await fetch(`${url}/drain`)).status).toBe(405);
  });
});

describe("a page in a browser", () => {
  const body = JSON.stringify({ code: "print hi", backend: "18901" });

  test.each(["/jupyter_sandbox", "/clear_session", "/drain"])("cannot use %s without asking first", async (path) => {
    const { send, sessions, backends } = await startApi();
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
      "text/json",
    ]) {
      const refused = await send(path, body, { "content-type": type });
      expect([type, refused.status]).toEqual([type, 415]);
      expect(await refused.text()).toContain("content-type: application/json");
    }
    expect(await sessions.list("local")).toEqual([]);
    expect(backends.status().ports["18901"]?.status).toBe("idle");
  });

  test.each(["/jupyter_sandbox", "/clear_session", "/drain"])("of another server cannot use %s", async (path) => {
    const { url, send } = await startApi();
    const { port } = new URL(url);
    const others = [
      "http://localhost:3000",
      "http://127.0.0.1",
      `https://127.0.0.1:${port}1`,
      `http://localhost:${port}`,
      "null",
    ];
    for (const origin of others) expect([origin, (await send(path, body, { origin })).status]).toEqual([origin, 403]);
    expect((await send(path, body, { origin: url })).status).toBe(200);
    expect((await send(path, body, { "content-type": "Application/JSON; charset=utf-8" })).status).toBe(200);
  });
});

/** The cell that runs in the only session, once it exists. */
async function runningCell(sessions: Sessions) {
  const cell = () => sessions.opened("local")[0]?.run();
  await until("a cell to run", () => cell()?.phase === "running");
  return cell();
}
