/** ipython-mcp: its own tools, over stdio, on real kernels. Each name begins with its case. */

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { defaultTimeoutMs } from "../../src/toolsets/ipython-mcp/toolset.ts";
import { createWorld, pythonVersion } from "../kernels/local/environments/world.ts";
import { processesOf } from "../support/processes.ts";
import { until } from "../support/program.ts";
import { testPython } from "../support/pythons.ts";
import { describeWith } from "../support/requirements.ts";
import data from "./data/ipython-mcp.json" with { type: "json" };
import { imagesOf, type RawReply, startToolset, type ToolsetClient, textOf } from "./toolset-program.ts";

const NAME = "ipython-mcp";
const environment = realpathSync(dirname(dirname(testPython("managed"))));

interface Listed {
  name: string;
  env: string;
  python: string;
  status: string;
  uptime_s: number;
  exec_count: number;
}

describeWith("localKernels", "S2 ipython-mcp", () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  const atEnd = (cleanUp: () => void | Promise<void>) => void cleanUps.unshift(cleanUp);
  let server: ToolsetClient;
  let home: string;
  let hangingProbe: Promise<RawReply>;
  beforeAll(async () => {
    home = realpathSync(mkdtempSync(join(tmpdir(), "cellwright-home-")));
    atEnd(() => rmSync(home, { recursive: true, force: true }));
    mkdirSync(join(home, "work"));
    mkdirSync(join(home, "envs"));
    symlinkSync(environment, join(home, "envs/named"));
    script("hanging", ["exec sleep 1000"]);
    script("counted", [
      `[ "$3" != -S ] || echo asked >>'${join(home, "asked")}'`,
      `exec '${testPython("managed")}' "$@"`,
    ]);
    const other = join(home, `envs/other/lib/python${pythonVersion()}/site-packages`);
    mkdirSync(other, { recursive: true });
    mkdirSync(join(home, "envs/other/bin"));
    symlinkSync(realpathSync(testPython("managed")), join(home, "envs/other/bin/python"));
    writeFileSync(join(home, "envs/other/pyvenv.cfg"), `home = ${dirname(realpathSync(testPython("managed")))}\n`);
    writeFileSync(join(other, "here.pth"), join(environment, `lib/python${pythonVersion()}/site-packages`));
    server = await start();
    hangingProbe = server.call("execute", { session: "hanging", code: "1", env: "hanging" });
    await run("import os, sys, time");
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
  const start = (args: string[] = [], env: Record<string, string> = {}) =>
    startToolset(NAME, {
      args: ["--env", environment, ...args],
      env: { HOME: home, ...env },
      cwd: join(home, "work"),
      atEnd,
    });
  const run = (code: string, session = "main", more: object = {}, at = server) =>
    at.call("execute", { session, code, ...more });
  const list = async (at = server) => (await at.call("list_sessions")).structuredContent?.result as Listed[];
  const listed = async (name: string) => (await list()).find((session) => session.name === name);
  /** A cell that reports when it runs, and runs until a file `{name}.go` exists. */
  const begin = async (session: string, name: string) => {
    const here = (ending: string) => join(home, "work", `${name}.${ending}`);
    const reply = run(
      `import os, time\nopen('${name}.on', 'w').close()\nwhile not os.path.exists('${name}.go'): time.sleep(0.02)\n'end of ${name}'`,
      session,
    );
    await until(`cell ${name} to run`, () => existsSync(here("on")), 30_000);
    return { reply, go: () => writeFileSync(here("go"), "") };
  };

  test("S2-01 five tools, whose optional arguments are null unless given", async () => {
    const { tools } = await server.client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["execute", "list_sessions", "reset", "shutdown", "interrupt"]);
    expect(tools[0]?.inputSchema).toMatchObject({
      properties: { env: { default: null }, timeout_s: { default: null } },
      required: ["session", "code"],
    });
    expect(server.client.getServerVersion()?.name).toBe("ipython-mcp");
  });

  test("the tools are defined key by key as in the original", async () => {
    const { tools } = await server.client.listTools();
    expect(tools).toEqual(data.tools);
  });

  test("S2-02, S2-03, S2-04 a session counts its cells and keeps its variables to itself", async () => {
    const first = await run("x = 1 + 1\nx", "s1");
    expect(textOf(first)).toBe("2");
    expect(first.structuredContent).toEqual({
      status: "ok",
      result: "2",
      stdout: "",
      stderr: "",
      error: null,
      execution_count: 1,
      warning: null,
    });
    const again = await run("x", "s1");
    expect([textOf(again), again.structuredContent?.execution_count]).toEqual(["2", 2]);
    const apart = await run("x", "s2");
    expect(apart).toMatchObject({ isError: true, structuredContent: { status: "error" } });
    expect(textOf(apart)).toContain("NameError");
  });

  test("S2-05 a cell that shows nothing is said to have run", async () => {
    expect(textOf(await run("y = 5"))).toBe("(executed ok)");
  });

  test("S2-06 printed lines are stdout, and no result", async () => {
    const reply = await run("print('hello'); print('world')");
    expect(textOf(reply)).toBe("hello\nworld");
    expect(reply.structuredContent).toMatchObject({ stdout: "hello\nworld\n", result: null });
  });

  test("S2-07 stdout, the last expression and stderr stand below each other", async () => {
    expect(textOf(await run("print('out')\nprint('err', file=sys.stderr)\n3"))).toBe("out\n3\nerr");
  });

  test("S2-08 what is displayed is the result where there is no last expression", async () => {
    expect((await run("display('a')")).structuredContent?.result).toBe("'a'");
    expect((await run("display('a')\n7")).structuredContent?.result).toBe("7");
  });

  test("S2-09 what was printed stands above the traceback", async () => {
    const reply = await run("print('before'); 1/0");
    expect(reply.isError).toBe(true);
    expect(textOf(reply)).toMatch(/^before\n[\s\S]*Traceback[\s\S]*\nZeroDivisionError: division by zero$/);
    expect(textOf(reply)).not.toContain("\u001b");
    expect(reply.structuredContent?.stdout).toBe("before\n");
  });

  test("S2-10, S2-11 a cell over its limit is stopped with what it printed, and its session lives", async () => {
    const code = "for i in range(20):\n    print(i)\n    time.sleep(600 * i)";
    const stopped = await run(code, "main", { timeout_s: 1.5 });
    expect(stopped).toMatchObject({ isError: true, structuredContent: { status: "timeout" } });
    expect(textOf(stopped)).toMatch(/^Timeout after 2s\n\nPartial output:\n0\n/);
    const alive = await run("'still here'");
    expect(alive.structuredContent).toMatchObject({ status: "ok", result: "'still here'" });
  });

  test("S2-12 a silent time-out says only that, and halves are rounded to even", async () => {
    expect(textOf(await run("time.sleep(60)", "main", { timeout_s: 1 }))).toBe("Timeout after 1s");
    expect(textOf(await run("time.sleep(60)", "main", { timeout_s: 0.5 }))).toBe("Timeout after 0s");
  });

  test("S2-13 no time is a time-out at once, and a limit that makes no sense starts nothing", async () => {
    const none = await run("open('ran', 'w')", "main", { timeout_s: 0 });
    expect(none.structuredContent?.status).toBe("timeout");
    expect(textOf(none)).toBe("Timeout after 0s");
    for (const timeout_s of [-1, "5", "soon"]) {
      const wrong = await run("1", "never", { timeout_s });
      expect(wrong.isError).toBe(true);
      expect(textOf(wrong)).toContain("timeout_s");
    }
    expect(await listed("never")).toBeUndefined();
  });

  test("S2-14 the limit is a little less than the client's own", async () => {
    const seconds = [undefined, "", "abc", "60000", "5000", "120000"].map((ms) => defaultTimeoutMs(ms) / 1000);
    expect(seconds).toEqual([58, 58, 58, 58, 10, 118]);
    const impatient = await start([], { MCP_TOOL_TIMEOUT: "5000" });
    expect(textOf(await run("import time\ntime.sleep(60)", "s", {}, impatient))).toBe("Timeout after 10s");
  });

  test("S2-15 a cell that swallows the interrupt is killed, that is said, and the next one runs", async () => {
    const code = "import time\nwhile True:\n    try: time.sleep(600)\n    except BaseException: pass";
    const stopped = await run(code, "deaf", { timeout_s: 1 });
    expect(stopped.structuredContent?.status).toBe("timeout");
    expect(textOf(stopped)).toMatch(/^Timeout after 1s\n[\s\S]*state was lost/);
    expect((await run("1 + 1", "deaf")).structuredContent).toMatchObject({ status: "ok", result: "2" });
  });

  test("S2-16, S2-17 a running cell is busy and is interrupted, on one connection", async () => {
    const { reply } = await begin("long", "long");
    expect((await listed("long"))?.status).toBe("busy");
    expect((await server.call("interrupt", { session: "long" })).structuredContent).toEqual({ ok: true });
    const ended = await reply;
    expect(ended).toMatchObject({ isError: true, structuredContent: { status: "error" } });
    expect(ended.structuredContent?.error).toContain("KeyboardInterrupt");
    expect((await listed("long"))?.status).toBe("idle");
  });

  test("S2-18 an interrupt of an idle session harms nothing", async () => {
    expect((await server.call("interrupt", { session: "main" })).structuredContent).toEqual({ ok: true });
    expect((await run("'unharmed'")).structuredContent).toMatchObject({ status: "ok", result: "'unharmed'" });
  });

  test("S2-19 cells of one session run in order, those of two at the same time", async () => {
    const first = await begin("one", "first");
    const beside = await begin("other", "beside");
    const second = run("os.path.exists('first.go')", "one");
    first.go();
    beside.go();
    expect((await first.reply).structuredContent).toMatchObject({ result: "'end of first'", execution_count: 1 });
    expect((await second).structuredContent).toMatchObject({ result: "True", execution_count: 2 });
    expect((await beside.reply).structuredContent).toMatchObject({ status: "ok" });
  });

  test("S2-20 two first calls for one name are one session with one kernel", async () => {
    const both = await Promise.all([1, 2].map(() => run("import os\nos.getpid()", "twins")));
    const [one, two] = both.map(({ structuredContent }) => structuredContent);
    expect(one?.result).toBe(two?.result);
    expect([one?.execution_count, two?.execution_count].sort()).toEqual([1, 2]);
    expect((await list()).filter(({ name }) => name === "twins")).toHaveLength(1);
  });

  test("S2-21 sessions are listed with six keys each, none where there are none", async () => {
    const empty = await start();
    const none = await empty.call("list_sessions");
    expect({ content: none.content, structured: none.structuredContent }).toEqual({
      content: [],
      structured: { result: [] },
    });
    await run("1", "a", {}, empty);
    for (const code of ["1", ""]) await run(code, "b", {}, empty);
    const keys = ["name", "env", "python", "status", "uptime_s", "exec_count"];
    const sessions = await list(empty);
    for (const session of sessions) expect(Object.keys(session)).toEqual(keys);
    expect(sessions.map(({ name, env, exec_count }) => [name, env, exec_count])).toEqual([
      ["a", "default", 1],
      ["b", "default", 2],
    ]);
    expect(sessions[0]?.python).toBe(join(environment, "bin/python"));
    const { content } = await empty.call("list_sessions");
    expect(content.map(({ text }) => JSON.parse(String(text)).name)).toEqual(["a", "b"]);
  });

  test("S2-22 a reset keeps the session and its environment, and forgets variables", async () => {
    await run("x = 1", "reset", { env: "named" });
    expect((await server.call("reset", { session: "reset" })).structuredContent).toEqual({ ok: true });
    expect(await listed("reset")).toMatchObject({ exec_count: 0, env: "named" });
    const after = await run("import sys\nprint(sys.prefix)\nx", "reset");
    expect(after.structuredContent).toMatchObject({ status: "error", execution_count: 1, warning: null });
    expect(textOf(after)).toContain("NameError");
    expect(after.structuredContent?.stdout).toBe(`${join(home, "envs/named")}\n`);
  });

  test.each(["reset", "shutdown"])("S2-23 %s ends a running cell, whose call returns", async (tool) => {
    const { reply } = await begin(`ends by ${tool}`, tool);
    const said = await server.call(tool, { session: `ends by ${tool}` });
    expect(said.structuredContent).toEqual({ ok: true });
    expect(await reply).toMatchObject({ isError: true, structuredContent: { status: "error" } });
  });

  test("S2-24 a session that was shut down is gone, and its name can be used again", async () => {
    await run("x = 1", "again");
    const shutdown = async () => (await server.call("shutdown", { session: "again" })).structuredContent;
    expect(await shutdown()).toEqual({ ok: true });
    expect(await listed("again")).toBeUndefined();
    expect((await run("'x' in dir()", "again")).structuredContent).toMatchObject({
      result: "False",
      execution_count: 1,
    });
    expect(await shutdown()).toEqual({ ok: true });
    expect(await shutdown()).toMatchObject({ ok: false });
  });

  test("S2-25 what is asked of an unknown session is refused by its name", async () => {
    for (const tool of ["reset", "shutdown", "interrupt"]) {
      const { structuredContent, isError } = await server.call(tool, { session: "x" });
      expect(structuredContent).toEqual({ ok: false, error: "unknown session 'x'" });
      expect(isError ?? false).toBe(false);
    }
  });

  test("S2-26 no env, an empty one and null are the default", async () => {
    for (const [index, env] of [{}, { env: "" }, { env: null }].entries()) {
      const { structuredContent } = await run("import sys\nsys.prefix", `default ${index}`, env);
      expect(structuredContent).toMatchObject({ result: `'${environment}'`, warning: null });
      expect(await listed(`default ${index}`)).toMatchObject({ env: "default" });
    }
  });

  test("S2-27 env is a path, or one from home; its label is where that leads to", async () => {
    for (const env of [environment, "~/envs/named"]) {
      const { structuredContent } = await run("import sys\nsys.prefix", `by ${env}`, { env });
      expect(structuredContent?.result).toBe(`'${environment}'`);
      expect(await listed(`by ${env}`)).toMatchObject({ env: environment, python: join(environment, "bin/python") });
    }
  });

  test("S2-28 env is a name below ~/envs", async () => {
    const { structuredContent } = await run("import sys\nsys.prefix", "by name", { env: "named" });
    expect(structuredContent?.result).toBe(`'${join(home, "envs/named")}'`);
    expect(await listed("by name")).toMatchObject({ env: "named", python: join(home, "envs/named/bin/python") });
  });

  test("S2-29 a missing environment is an error, and starts no session", async () => {
    const reply = await run("1", "nowhere", { env: "definitely-not-an-env" });
    const python = join(home, "envs/definitely-not-an-env/bin/python");
    const error = `python interpreter not found at ${python} for env 'definitely-not-an-env'`;
    expect(reply.isError).toBe(true);
    expect(textOf(reply)).toBe(error);
    expect(reply.structuredContent).toEqual({
      status: "env_error",
      stdout: "",
      stderr: "",
      result: null,
      error,
      execution_count: null,
      warning: null,
    });
    expect(await listed("nowhere")).toBeUndefined();
  });

  test("S2-30 an environment without ipykernel is an error with the command of its kind", async () => {
    const world = createWorld();
    const text = (env: string, hint: string) =>
      `ipykernel not found in env '${env}' (python: ${env}/bin/python). Install with: ${hint}`;
    const venv = realpathSync(world.venv("plain", { ipykernel: false, pip: "" }));
    expect(textOf(await run("1", "plain", { env: venv }))).toBe(
      text(venv, `${venv}/bin/python -m pip install ipykernel`),
    );
    const conda = realpathSync(world.conda("conda", { ipykernel: false }));
    expect(textOf(await run("1", "conda", { env: conda }))).toBe(
      text(conda, `mamba install -p ${conda} -c conda-forge ipykernel`),
    );
  });

  test("S2-30 ipykernel is installed when that is wanted, and the cell runs", async () => {
    const packages = join(environment, `lib/python${pythonVersion()}/site-packages`);
    // Instead of downloading ipykernel, this pip makes the installed one visible.
    const pip = `import site\nopen(site.getsitepackages()[0] + '/here.pth', 'w').write(${JSON.stringify(packages)})`;
    const env = realpathSync(createWorld().venv("bare", { ipykernel: false, pip }));
    // A vouched environment: code of any other runs only in a jail.
    const willing = await start(["--auto-install-ipykernel", "--env-root", dirname(env)]);
    const { structuredContent } = await run("import sys\nsys.prefix", "s", { env }, willing);
    expect(structuredContent).toMatchObject({ status: "ok", result: `'${env}'` });
  });

  test("S2-32 another env later runs in the first one and says so, even without output", async () => {
    await run("1", "bound");
    const python = join(environment, "bin/python");
    const warning = `session 'bound' is bound to env 'default' (${python}); ignoring requested env 'other'. Use shutdown('bound') first to rebind.`;
    const other = await run("pass", "bound", { env: "other" });
    expect(other.structuredContent).toMatchObject({ status: "ok", warning });
    expect(textOf(other)).toBe(`Warning: ${warning}\n\n(executed ok)`);
    expect(textOf(await run("5", "bound", { env: "other" }))).toBe(`Warning: ${warning}\n\n5`);
  });

  test("S2-32 the same env again is no news, however it is written, and its Python is asked once", async () => {
    // Without a jail, in which it could not leave a trace.
    const open = await start(["--jail", "none"]);
    const same = ["counted", "~/envs/counted", join(home, "envs/counted"), ...Array(10).fill("counted")];
    for (const env of same) expect((await run("1", "same", { env }, open)).structuredContent?.warning).toBeNull();
    expect(readFileSync(join(home, "asked"), "utf8")).toBe("asked\n");
  });

  test("S2-33 an env that is missing later is an error, and the session stays", async () => {
    await run("kept = 1", "stays");
    const wrong = await run("kept = 2", "stays", { env: "definitely-not-an-env" });
    expect(wrong.structuredContent?.status).toBe("env_error");
    expect((await run("kept", "stays")).structuredContent?.result).toBe("1");
  });

  test("S2-34 a kernel that dies is reported at once, the next call is warned, and a figure is one picture", async () => {
    const died = await run("import os; os._exit(1)", "mortal");
    expect(died).toMatchObject({ isError: true, structuredContent: { status: "error" } });
    expect(textOf(died)).toContain("kernel died");
    const next = await run("1", "mortal");
    expect(next.structuredContent).toMatchObject({ status: "ok", result: "1", warning: expect.any(String) });
    expect((await run("1", "mortal")).structuredContent?.warning).toBeNull();
    const figure = await run("import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()", "mortal");
    expect(imagesOf(figure)).toHaveLength(1);
    expect(textOf(figure)).toBe("<Figure size 640x480 with 1 Axes>");
  });

  test("S2-35 an idle session expires where that is asked for, and the server leaves no kernel", async () => {
    const short = await start(["--session-ttl", "2"]);
    await run("1", "brief", {}, short);
    await until("the session to expire", async () => (await list(short)).length === 0, 30_000);
    await run("1", "brief", {}, short);
    expect(processesOf(short.dataDir).length).toBeGreaterThan(2);
    await short.close();
    await until("all processes to be gone", () => processesOf(short.dataDir).length === 0);
  });

  test("sessions work in the folder that the server was started in, and a link there leads to an environment", async () => {
    expect((await run("os.getcwd()")).structuredContent?.result).toBe(`'${join(home, "work")}'`);
    symlinkSync(environment, join(home, "work/link"));
    const linked = await run("1", "linked", { env: "./link" });
    expect(linked.structuredContent?.status).toBe("ok");
    expect(await listed("linked")).toMatchObject({ env: environment });
  });

  test("an active environment below the working folder is used, and cannot be changed by cells", async () => {
    const world = createWorld();
    const project = realpathSync(dirname(world.venv("project/.venv", { ipykernel: false, pip: "" })));
    const packages = join(environment, `lib/python${pythonVersion()}/site-packages`);
    const site = join(project, `.venv/lib/python${pythonVersion()}/site-packages`);
    mkdirSync(site, { recursive: true });
    writeFileSync(join(site, "here.pth"), packages);
    const args = ["--env", environment];
    const active = { HOME: home, VIRTUAL_ENV: join(project, ".venv") };
    const inside = await startToolset(NAME, { args, env: active, cwd: project });
    const used = await run("import sys\nsys.prefix", "s", { env: "./.venv" }, inside);
    expect(used.structuredContent).toMatchObject({ status: "ok", result: `'${join(project, ".venv")}'` });
    for (const change of ["open('.venv/planted', 'w')", "import os\nos.rename('.venv', 'away')"]) {
      expect((await run(change, "other", {}, inside)).structuredContent?.error).toMatch(/^OSError: \[Errno (30|16)\]/m);
    }
    expect(existsSync(join(project, ".venv/planted"))).toBe(false);
    await run(
      "import os\nos.makedirs('evil/bin')\nopen('evil/bin/python', 'w').write('#!/bin/sh\\n')\nos.chmod('evil/bin/python', 0o755)",
      "other",
      {},
      inside,
    );
    const evil = await run("1", "third", { env: "./evil" }, inside);
    expect(evil.structuredContent).toMatchObject({ status: "env_error" });
    expect(textOf(evil)).toContain("does not run");
  });

  test("a project's own environment is used whether it was there before the server or not", async () => {
    const world = createWorld();
    const project = realpathSync(dirname(world.file("project/notes.txt", "")));
    // A kernel does not need these, and copying them takes a minute.
    const large =
      /\/(scipy|numpy|pillow|pandas|sympy|plotly|sklearn|bokeh|matplotlib|fontTools|altair|vl_convert|PIL)(\.libs)?$/;
    // The location of the tests' Python counts as one of this user's Python folders.
    const env = { HOME: home, UV_PYTHON_INSTALL_DIR: dirname(dirname(dirname(realpathSync(testPython("managed"))))) };
    const inside = await startToolset(NAME, { env, cwd: project });
    const make = async (name: string) => {
      const made = spawnSync(testPython("managed"), ["-m", "venv", "--without-pip", join(project, name)]);
      expect(made.status, String(made.stderr)).toBe(0);
      const packages = join(environment, `lib/python${pythonVersion()}/site-packages`);
      const site = join(project, `${name}/lib/python${pythonVersion()}/site-packages`);
      rmSync(site, { recursive: true });
      cpSync(packages, site, { recursive: true, filter: (path) => !large.test(path) });
    };
    await make(".venv");
    const later = await run("import sys\nsys.prefix", "s", { env: "./.venv" }, inside);
    expect(later.structuredContent).toMatchObject({ status: "ok", result: `'${join(project, ".venv")}'` });
    const again = await startToolset(NAME, { env, cwd: project });
    const found = await run("import sys\nsys.prefix", "s", { env: "./.venv" }, again);
    expect(found.structuredContent).toMatchObject({ status: "ok", result: `'${join(project, ".venv")}'` });
  });

  test("without any environment it is said which command makes one", async () => {
    const world = createWorld();
    const env = { HOME: world.home, PATH: join(world.home, "nothing") };
    const fresh = await startToolset(NAME, { env });
    const reply = await run("1", "s", {}, fresh);
    expect(textOf(reply)).toBe("There is no Python environment yet: run `cellwright env create`, then try again.");
  });

  test.each(data.golden)("golden $name", async ({ request, expected }) => {
    const { name, arguments: given } = request;
    const reply = await server.call(name, given as never);
    const lastLine = textOf(reply).trimEnd().split("\n").at(-1);
    if ("text" in expected) expect(textOf(reply)).toBe(expected.text);
    if ("lastLine" in expected) expect(lastLine).toBe(expected.lastLine);
    expect(reply.isError ?? false).toBe(expected.isError);
  });

  test("S2-31 a Python that never answers is an error after 15 s, and does not delay other sessions", async () => {
    expect(textOf(await hangingProbe)).toBe("timed out probing ipykernel in env 'hanging'");
    expect(await listed("hanging")).toBeUndefined();
  });
});
