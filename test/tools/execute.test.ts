import { describe, expect, test } from "vitest";
import { createFakeProvider } from "../support/fake-kernel.ts";
import { createHandProvider } from "../support/hand-kernel.ts";
import { until } from "../support/until.ts";
import { createWorld } from "./support.ts";

describe("execute_code", () => {
  test("starts a session when none is named, and goes on in it", async () => {
    const { call } = createWorld();
    const first = await call("execute_code", { code: "print hello\ncount" });
    expect(first.text).toMatch(/^hello\n1\n\[session [\w-]{16} · cell 1 · ok · [\d.]+ m?s · Fake kernel\]$/);
    expect(first._meta?.["cellwright/execution"]).toEqual({
      session_id: expect.stringMatching(/^[\w-]{16}$/),
      execution_id: expect.any(String),
      status: "ok",
      execution_count: 1,
      duration_ms: expect.any(Number),
    });
    const { session_id } = first.execution;
    const second = await call("execute_code", { code: "count", session_id });
    expect(second.text).toMatch(/^2\n\[session [\w-]{16} · cell 2 · ok · [\d.]+ m?s\]$/);
  });

  test.each([undefined, "", "0", 0, " "])("session_id %j means a new session", async (session_id) => {
    const { call, sessions } = createWorld();
    await call("execute_code", { code: "count" });
    expect((await call("execute_code", { code: "count", session_id })).text).toContain("cell 1");
    expect(await sessions.list("local")).toHaveLength(2);
  });

  test("finds a session by its name", async () => {
    const { call } = createWorld();
    await call("execute_code", { code: "count", session_name: "Analysis 1" });
    expect((await call("execute_code", { code: "count", session_id: "Analysis 1" })).text).toMatch(/^2\n/);
    const taken = await call("execute_code", { code: "count", session_name: "Analysis 1" });
    expect(taken).toMatchObject({ isError: true, code: "invalid_input" });
    const ignored = await call("execute_code", { code: "count", session_id: "Analysis 1", session_name: "Other" });
    expect(ignored.text).toContain("session_name was ignored");
  });

  test("a number names a session whose name is that number", async () => {
    const { call } = createWorld();
    await call("execute_code", { code: "count", session_name: "7" });
    expect((await call("execute_code", { code: "count", session_id: 7 })).text).toMatch(/^2\n/);
    expect((await call("reset_session", { session_id: 7 })).text).toContain("was reset");
  });

  test("an unknown session is an error that says what to do", async () => {
    const { call } = createWorld();
    const reply = await call("execute_code", { code: "count", session_id: "nowhere" });
    expect(reply.isError).toBe(true);
    expect(reply.text).toBe(
      "There is no session `nowhere`.\nLeave out session_id to start a new session, or call list_sessions.\n[error: session_not_found]",
    );
  });

  test("a first cell that raises keeps its session, and an exception is not an error of the call", async () => {
    const { call } = createWorld();
    const raised = await call("execute_code", { code: "print before\nerror bad value" });
    expect(raised.isError).toBeUndefined();
    expect(raised.text).toMatch(/^before\nValueError: bad value\n\[session .* · cell 1 · error · /);
    expect((await call("execute_code", { code: "count", session_id: raised.execution.session_id })).text).toMatch(/^2/);
  });

  test("a session whose kernel does not start leaves nothing behind", async () => {
    const provider = { ...createFakeProvider(), start: () => Promise.reject(new Error("no")) };
    const { reply, sessions } = createWorld({ provider });
    await expect(reply("execute_code", { code: "count" })).rejects.toThrow("no");
    expect(await sessions.list("local")).toEqual([]);
  });

  test("variables of a shell have names that a shell can have", async () => {
    const { call } = createWorld();
    const reply = await call("execute_code", { code: "echo", language: "bash", variables: { é: 1 } });
    expect(reply).toMatchObject({ isError: true, code: "invalid_input" });
    expect(reply.text).toContain("shell variable name");
  });

  test("a kernel that dies is the cell's outcome", async () => {
    const { call } = createWorld();
    const reply = await call("execute_code", { code: "print so far\ndie" });
    expect(reply.isError).toBeUndefined();
    expect(reply.execution.status).toBe("kernel_died");
    expect(reply.text).toContain("so far\nThe kernel died: it was told to die. Its state was lost: variables are gone");
  });

  test("a cell over its time is stopped", async () => {
    const { call } = createWorld();
    const reply = await call("execute_code", { code: "print a\nsleep 5000", timeout_s: 0.05 });
    expect(reply.execution.status).toBe("timeout");
    expect(reply.text).toContain("ran longer than 0.05 s");
  });

  test("cancelling the call stops the cell", async () => {
    const { call, provider } = createWorld();
    const cancelled = new AbortController();
    const reply = call("execute_code", { code: "print a\nsleep 5000" }, { signal: cancelled.signal });
    await until(() => provider.kernels[0]?.began.length === 1);
    cancelled.abort();
    expect((await reply).execution.status).toBe("interrupted");
  });

  test("cancelling after `running` was returned does not", async () => {
    const { call, provider } = createWorld({ provider: createHandProvider() });
    const cancelled = new AbortController();
    const { execution } = await call("execute_code", { code: "", wait_s: 0 }, { signal: cancelled.signal });
    cancelled.abort();
    provider.print("end\n");
    provider.end();
    const waited = await call("wait", { session_id: execution.session_id });
    expect(waited.execution.status).toBe("ok");
    expect(waited.text).toMatch(/^end\n/);
  });

  test("what the cell prints is passed on as it comes", async () => {
    const { call, told } = createWorld();
    await call("execute_code", { code: "print one\nsleep 5\nprint two" });
    expect(told.printed.join("")).toBe("stdout: one\nstdout: two\n");
  });

  test("progress tells the time and the last printed line", async () => {
    const { call, told, sessions } = createWorld();
    const running = call("execute_code", { code: "print step 3 of 7\nhang" });
    await until(() => told.progress().includes("step"));
    expect(told.progress()).toMatch(/^[\d.]+ m?s · step 3 of 7$/);
    await sessions.opened("local")[0]?.interrupt();
    await running;
  });

  test("progress tells that a kernel is starting", async () => {
    const provider = createFakeProvider();
    const { start } = provider;
    let go = () => {};
    provider.start = async (spec, options) => {
      options.progress?.("building a snapshot");
      await new Promise<void>((resolve) => {
        go = resolve;
      });
      return start(spec, options);
    };
    const { call, told } = createWorld({ provider });
    const early = await call("execute_code", { code: "count", wait_s: 0 });
    expect(early.text).toContain("The cell has not started yet: building a snapshot.");
    expect(told.progress()).toMatch(/^[\d.]+ m?s · building a snapshot$/);
    go();
    await call("wait", { session_id: early.execution.session_id });
  });

  test("output that came late is shown before the next cell's own, marked", async () => {
    const { call, sessions } = createWorld();
    const { execution } = await call("execute_code", { code: "late 5 from the background" });
    const session = await sessions.get("local", execution.session_id);
    await until(() => session.run()?.lastLine === "from the background");
    const next = await call("execute_code", { code: "print mine", session_id: execution.session_id });
    expect(next.text).toMatch(
      /^\[late output of cell 1\]\nfrom the background\n\[end of late output\]\nmine\n\[session/,
    );
  });
});

describe("wait", () => {
  /** A running cell without output so far. */
  async function startCell() {
    const world = createWorld({ provider: createHandProvider() });
    const { execution } = await world.call("execute_code", { code: "", wait_s: 0 });
    const session = await world.sessions.get("local", execution.session_id);
    const print = async (text: string) => {
      world.provider.print(`${text}\n`);
      await until(() => session.run()?.lastLine === text);
    };
    const end = async () => {
      world.provider.end();
      await session.run()?.finished;
    };
    return { ...world, ...execution, print, end };
  }

  test("gives what is new, then the end, then all of it", async () => {
    const { call, session_id, execution_id, print, provider } = await startCell();
    await print("one");
    const first = await call("wait", { session_id, wait_s: 0 });
    expect(first.execution).toMatchObject({ status: "running", execution_id });
    expect(first.text).toMatch(
      /^one\n\[session [\w-]+ · execution [\w-]+ · running · [\d.]+ m?s · call wait with this session_id for the rest, or interrupt to stop it\]$/,
    );
    await print("two");
    expect((await call("wait", { session_id, wait_s: 0 })).text).toMatch(/^two\n\[/);
    const waiting = call("wait", { session_id });
    await print("three");
    provider.end();
    const end = await waiting;
    expect(end.execution).toMatchObject({ status: "ok", execution_id });
    expect(end.text).toMatch(/^three\n\[/);
    expect((await call("wait", { session_id })).text).toMatch(/^one\ntwo\nthree\n\[/);
  });

  test("gives only what is new of a cell that ended meanwhile", async () => {
    const { call, session_id, execution_id, print, end } = await startCell();
    await print("one");
    await call("wait", { session_id, wait_s: 0 });
    await print("two");
    await end();
    expect((await call("wait", { session_id, execution_id })).text).toMatch(/^two\n\[.* · ok · /);
    expect((await call("wait", { session_id, execution_id })).text).toMatch(/^one\ntwo\n\[.* · ok · /);
  });

  test("a cancelled wait neither stops the cell nor takes its output away", async () => {
    const { call, session_id, print, end } = await startCell();
    const cancelled = new AbortController();
    const waiting = call("wait", { session_id }, { signal: cancelled.signal });
    await print("one");
    cancelled.abort();
    await waiting;
    await print("two");
    await end();
    expect((await call("wait", { session_id })).text).toMatch(/^one\ntwo\n\[.* · ok · /);
  });

  test("shows cells of an earlier life of the program", async () => {
    const world = createWorld();
    const { execution } = await world.call("execute_code", { code: "print long ago" });
    const { session_id, execution_id } = execution;
    await world.sessions.dispose();
    const next = createWorld({ store: world.store });
    expect((await next.call("wait", { session_id })).text).toMatch(/^long ago\n\[.*cell 1 · ok/);
    expect((await next.call("wait", { session_id, execution_id })).text).toContain("long ago");
    expect(await next.call("wait", { session_id, execution_id: "nope" })).toMatchObject({
      code: "execution_not_found",
    });
  });

  test("says so when nothing has run", async () => {
    const { call, sessions } = createWorld();
    const { id } = await sessions.create("local");
    expect((await call("wait", { session_id: id })).text).toBe(`No cell has run in session ${id} yet.`);
  });

  test("a cell behind another says that it waits for its turn", async () => {
    const { call, session_id, print, end, provider } = await startCell();
    const second = await call("execute_code", { code: "", session_id, wait_s: 0 });
    expect(second.text).toContain("queued behind another cell");
    await end();
    await print("second");
    provider.end();
    const { execution_id } = second.execution;
    expect((await call("wait", { session_id, execution_id })).text).toMatch(/^second\n/);
  });
});

describe("interrupt", () => {
  test("stops the running cell and returns what is new", async () => {
    const { call, provider } = createWorld();
    const { execution } = await call("execute_code", { code: "sleep 60000", wait_s: 0 });
    await until(() => provider.kernels[0]?.began.length === 1);
    const stopped = await call("interrupt", { session_id: execution.session_id });
    expect(stopped.execution.status).toBe("interrupted");
    expect(stopped.text).toMatch(/^KeyboardInterrupt\nThe cell was interrupted; variables are kept\.\n\[/);
    const again = await call("interrupt", { session_id: execution.session_id });
    expect(again.text).toBe(`Nothing is running in session ${execution.session_id}.`);
  });
});
