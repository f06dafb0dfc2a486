/** Behaviour that users of ipython-mcp know, on local kernels; each name begins with its case. */

import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createWorld, pythonVersion } from "../kernels/local/environments/world.ts";
import { besidesLimits } from "../support/limit-notes.ts";
import { type Reply, startStdio, type TestClient, until } from "../support/program.ts";
import { testPython } from "../support/pythons.ts";
import { describeWith } from "../support/requirements.ts";

const environment = dirname(dirname(testPython("managed")));
const local = ["--kernel", "local", "--env", environment, "--structured"];

describeWith("localKernels", "S2 on local kernels", () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  const atEnd = (cleanUp: () => void | Promise<void>) => void cleanUps.unshift(cleanUp);
  let client: TestClient & { dataDir: string };
  let home: string;
  let hangingProbe: Promise<Reply>;
  let s1: string;

  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), "cellwright-home-"));
    atEnd(() => rmSync(home, { recursive: true, force: true }));
    mkdirSync(join(home, "envs"));
    symlinkSync(environment, join(home, "envs/named"));
    script("hanging", ["exec sleep 1000"]);
    client = await startStdio({ args: local, env: { HOME: home }, atEnd });
    hangingProbe = client.run("1", { env: "hanging" });
    s1 = (await client.run("import os, sys, time")).execution.session_id;
  });
  afterAll(async () => {
    for (const cleanUp of cleanUps) await cleanUp();
  });

  function script(name: string, lines: string[]): void {
    const python = join(home, "envs", name, "bin/python");
    mkdirSync(dirname(python), { recursive: true });
    writeFileSync(python, ["#!/bin/sh", ...lines, ""].join("\n"));
    chmodSync(python, 0o755);
  }
  const run = (code: string, session_id = s1, more = {}) => client.run(code, { session_id, ...more });
  const newSession = async (args = {}) => (await client.run("import os, sys, time", args)).execution.session_id;
  const sessions = async () => {
    const { structured } = await client.call("list_sessions");
    return structured?.sessions as { session_id: string; name: string | null; state: string }[];
  };
  const stateOf = async (id: string) => (await sessions()).find(({ session_id }) => session_id === id)?.state;
  const fileOf = (id: string, name: string) => join(client.dataDir, "sessions", id, "workspace", name);
  /** A cell that reports when it runs, and runs until a file `go` exists. */
  const begin = async (session_id: string, name = "a"): Promise<{ reply: Promise<Reply> }> => {
    const code = `open('${name}', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)\n'end of ${name}'`;
    const reply = run(code, session_id);
    await until(`cell ${name} to run`, () => existsSync(fileOf(session_id, name)));
    return { reply };
  };

  test("S2-02, S2-03, S2-04 a session counts its cells and keeps its variables to itself", async () => {
    const first = await client.run("x = 1 + 1\nx");
    const said = { status: "ok", result: "2", stdout: "", stderr: "", error: null, execution_count: 1 };
    expect(first.structured).toMatchObject(said);
    expect(besidesLimits(first.structured?.notices)).toEqual([]);
    const again = await run("x", first.execution.session_id);
    expect(again.structured).toMatchObject({ result: "2", execution_count: 2 });
    expect((await run("x")).structured).toMatchObject({ status: "error", error: { name: "NameError" } });
  });

  test("S2-05 a cell that shows nothing is said to have run", async () => {
    expect((await run("y = 5")).text).toMatch(/ok.*no output/);
  });

  test("S2-06 printed lines are stdout, and no result", async () => {
    const { structured } = await run("print('hello'); print('world')");
    expect(structured).toMatchObject({ stdout: "hello\nworld\n", result: "" });
  });

  test("S2-07 stdout, stderr and the last expression are all told", async () => {
    const { structured, text } = await run("print('out')\n_ = sys.stderr.write('err\\n')\n3");
    expect(structured).toMatchObject({ stdout: "out\n", stderr: "err\n", result: "3" });
    for (const line of ["out", "err", "3"]) expect(text.split("\n")).toContain(line);
  });

  test("S2-08 displays are shown without a last expression", async () => {
    expect((await run("display('a')")).structured?.result).toBe("'a'");
  });

  test("S2-09 what was printed stands above the traceback, which ends with the exception", async () => {
    const { text, structured } = await run("print('before'); 1/0");
    expect(text).toMatch(/^before\n[\s\S]*Traceback[\s\S]*\nZeroDivisionError: division by zero\n\[session/);
    expect(text).not.toContain("\u001b");
    expect(structured?.stdout).toBe("before\n");
  });

  test("S2-10, S2-11 a cell that takes too long is stopped with what it printed, and its session lives", async () => {
    const code = "kept = 'still here'\nfor i in range(20):\n    print(i)\n    time.sleep(600 * (i // 2))";
    const stopped = await run(code, s1, { timeout_s: 1.5 });
    expect(stopped.structured).toMatchObject({ status: "timeout", stdout: expect.stringMatching(/^0\n1\n/) });
    expect((await run("kept")).structured).toMatchObject({ status: "ok", result: "'still here'" });
  });

  test("S2-13 a time limit that makes no sense is refused before anything starts", async () => {
    const before = (await sessions()).length;
    for (const timeout_s of [-1, 0, "soon"]) {
      const reply = await client.run("1", { timeout_s });
      expect(reply).toMatchObject({ isError: true, text: expect.stringContaining("timeout_s") });
    }
    expect(await sessions()).toHaveLength(before);
  });

  test("S2-15 a cell that swallows the interrupt is killed, that is said, and the next one runs", async () => {
    const session_id = await newSession();
    const code = "while True:\n    try: time.sleep(600)\n    except BaseException: pass";
    const stopped = await run(code, session_id, { timeout_s: 1 });
    expect(stopped.execution.status).toBe("timeout");
    expect(stopped.text).toContain("state was lost: variables are gone");
    expect((await run("1 + 1", session_id)).structured).toMatchObject({ status: "ok", result: "2" });
  });

  test("S2-16, S2-17 a running cell is listed as busy and interrupted, on one connection", async () => {
    const session_id = await newSession();
    const { reply } = await begin(session_id);
    expect(await stateOf(session_id)).toBe("busy");
    expect((await client.call("interrupt", { session_id })).isError).toBe(false);
    const { structured } = await reply;
    expect(structured).toMatchObject({ status: "interrupted", error: { name: "KeyboardInterrupt" } });
    expect(await stateOf(session_id)).toBe("idle");
  });

  test("S2-18 an interrupt of an idle session harms nothing", async () => {
    expect((await client.call("interrupt", { session_id: s1 })).isError).toBe(false);
    expect((await run("'unharmed'")).structured).toMatchObject({ status: "ok", result: "'unharmed'" });
  });

  test("S2-19 cells of one session run in order, those of two at the same time", async () => {
    const [one, other] = [await newSession(), await newSession()];
    const { reply: first } = await begin(one);
    const { reply: beside } = await begin(other);
    const second = run("os.path.exists('go')", one);
    for (const session_id of [one, other]) writeFileSync(fileOf(session_id, "go"), "");
    expect((await first).structured).toMatchObject({ result: "'end of a'", execution_count: 2 });
    expect((await second).structured).toMatchObject({ result: "True", execution_count: 3 });
    expect((await beside).structured).toMatchObject({ status: "ok" });
  });

  test("S2-20 two first calls for one name make one session, and two first cells one kernel", async () => {
    const both = await Promise.all([1, 2].map(() => client.run("1", { session_name: "twins" })));
    expect(both.map(({ isError }) => isError).sort()).toEqual([false, true]);
    expect(both.find(({ isError }) => isError)?.text).toContain("exists already");
    expect((await sessions()).filter(({ name }) => name === "twins")).toHaveLength(1);
    await client.call("reset_session", { session_id: "twins" });
    const [, second] = await Promise.all([run("a = 'same kernel'", "twins"), run("a", "twins")]);
    expect(second?.structured).toMatchObject({ result: "'same kernel'", execution_count: 2 });
  });

  test("S2-21 a server without sessions lists none, and then each with its name", async () => {
    const server = await startStdio({ args: local });
    expect((await server.call("list_sessions")).structured).toEqual({ sessions: [], total: 0 });
    const { session_id } = (await client.run("1", { session_name: "listed" })).execution;
    expect(await sessions()).toContainEqual(expect.objectContaining({ session_id, name: "listed", state: "idle" }));
  });

  test("S2-22 a reset keeps the session and its environment, and forgets variables", async () => {
    const session_id = await newSession({ env: "named" });
    await run("x = 1", session_id);
    expect((await client.call("reset_session", { session_id })).isError).toBe(false);
    const after = await run("import sys\nprint(sys.prefix)\nx", session_id);
    expect(after.structured).toMatchObject({ execution_count: 1, error: { name: "NameError" } });
    expect(after.structured?.stdout).toBe(`${join(home, "envs/named")}\n`);
  });

  test.each(["reset_session", "close_session"])("S2-23 %s ends a running cell, whose call returns", async (tool) => {
    const session_id = await newSession();
    const { reply } = await begin(session_id);
    expect((await client.call(tool, { session_id })).isError).toBe(false);
    expect((await reply).execution.status).toBe("interrupted");
  });

  test("S2-24 a closed session is gone, and its name can be used again", async () => {
    await newSession({ session_name: "again" });
    const close = () => client.call("close_session", { session_id: "again", delete_files: true });
    expect((await close()).isError).toBe(false);
    expect((await sessions()).map(({ name }) => name)).not.toContain("again");
    expect((await close()).isError).toBe(true);
    const anew = await client.run("'x' in dir()", { session_name: "again" });
    expect(anew.structured).toMatchObject({ result: "False", execution_count: 1 });
    expect((await close()).isError).toBe(false);
  });

  test("S2-25 what is asked of an unknown session is an error that names it", async () => {
    for (const tool of ["reset_session", "close_session", "interrupt", "wait"]) {
      const reply = await client.call(tool, { session_id: "unheard of" });
      expect(reply).toMatchObject({ isError: true, text: expect.stringContaining("`unheard of`") });
    }
  });

  test("S2-26 no env and an empty one are the default", async () => {
    for (const env of [{}, { env: "" }, { env: null }]) {
      const { structured } = await client.run("import sys\nsys.prefix", env);
      expect(structured?.result).toBe(`'${environment}'`);
      expect(besidesLimits(structured?.notices)).toEqual([]);
    }
  });

  test("S2-27, S2-28 env is a path, a path from home, or a name below ~/envs", async () => {
    const named = join(home, "envs/named");
    for (const [env, prefix] of [
      [environment, environment],
      [named, named],
      ["~/envs/named", named],
      ["named", named],
    ]) {
      const { structured, text } = await client.run("import sys\nsys.prefix", { env });
      expect(structured?.result).toBe(`'${prefix}'`);
      expect(text).toContain(`(${env})`);
    }
  });

  test("S2-29 an environment that does not exist is an error, and begins no session", async () => {
    const before = (await sessions()).length;
    const reply = await client.run("1", { env: "definitely-not-an-env" });
    expect(reply.isError).toBe(true);
    expect(reply.text).toContain("definitely-not-an-env");
    expect(reply.text).toContain(join(home, "envs"));
    expect(reply.text).toContain("[error: env_error]");
    expect(await sessions()).toHaveLength(before);
  });

  test("S2-30 an environment without ipykernel is an error with the command of its kind", async () => {
    const world = createWorld();
    const venv = await client.run("1", { env: world.venv("plain", { ipykernel: false, pip: "" }) });
    expect(venv.text).toMatch(/no ipykernel[\s\S]*plain\/bin\/python'? -m pip install ipykernel/);
    const conda = await client.run("1", { env: world.conda("conda", { ipykernel: false }) });
    expect(conda.text).toMatch(/no ipykernel[\s\S]*install -p .*conda'? -c conda-forge ipykernel/);
    for (const { isError } of [venv, conda]) expect(isError).toBe(true);
  });

  test("S2-30 ipykernel is installed when that is wanted, and the cell runs", async () => {
    const world = createWorld();
    const packages = join(environment, `lib/python${pythonVersion()}/site-packages`);
    // Instead of downloading ipykernel, this pip makes the installed one visible.
    const pip = `import site\nopen(site.getsitepackages()[0] + '/here.pth', 'w').write(${JSON.stringify(packages)})`;
    const env = world.venv("bare", { ipykernel: false, pip });
    // Only vouched environments are changed.
    const server = await startStdio({
      args: [...local, "--auto-install-ipykernel", "--env-root", dirname(env)],
    });
    const { structured } = await server.run("import sys\nsys.prefix", { env: "bare" });
    expect(structured).toMatchObject({ status: "ok", result: `'${env}'` });
  });

  test("S2-32 another env later runs in the first one and says so, even without output", async () => {
    const session_id = await newSession();
    const other = await run("pass", session_id, { env: "named" });
    expect(other.structured?.notices).toEqual([expect.stringMatching(/named.*ignored.*already runs in/)]);
    expect(other.execution.status).toBe("ok");
    await client.call("reset_session", { session_id });
    const after = await run("import sys\nsys.prefix", session_id, { env: "named" });
    expect(after.structured).toMatchObject({ result: `'${environment}'` });
    expect(after.text).toContain("was ignored");
  });

  test("S2-32 the same env again is no news, however it is written", async () => {
    const session_id = await newSession({ env: "named" });
    for (const env of ["named", "~/envs/named", join(home, "envs/named"), ...Array(7).fill("named")])
      expect((await run("1", session_id, { env })).structured?.notices).toEqual([]);
    expect((await run("1", s1, { env: environment })).structured?.notices).toEqual([]);
  });

  test("S2-34 a kernel that dies is reported at once, the next cell runs, and a figure is one picture", async () => {
    const session_id = await newSession();
    const died = await run("os._exit(1)", session_id);
    expect(died.structured).toMatchObject({ status: "kernel_died" });
    expect(died.text).toContain("fresh kernel");
    expect((await run("1", session_id)).structured).toMatchObject({ status: "ok", result: "1" });
    const { content } = await run("import matplotlib.pyplot as plt\nplt.plot([1, 2]);", session_id);
    expect(content.filter(({ type }) => type === "image")).toHaveLength(1);
  });

  test("S2-31 a Python that never answers is an error after 15 s, and does not delay other sessions", async () => {
    const { isError, text } = await hangingProbe;
    expect(isError).toBe(true);
    expect(text).toContain("did not answer within 15 s");
    expect(text).toContain("hanging");
  });
});
