/** jupyter-interpreter-mcp 0.2.1: startup, persistence, and failing connections. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { freePort } from "../support/jupyter-server.ts";
import { temporaryDataDir, until } from "../support/program.ts";
import { describeWith } from "../support/requirements.ts";
import { TcpProxy } from "../support/tcp-proxy.ts";
import commandLines from "./data/command-lines.json" with { type: "json" };
import { leaveAtOnce, S1Server } from "./s1-support.ts";

const NAME = "jupyter-interpreter-mcp";

describeWith("jupyterServer", "S1a, its life", (python) => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  let server: S1Server;
  beforeAll(async () => {
    server = await S1Server.start(python, NAME, (cleanUp) => void cleanUps.unshift(cleanUp));
  });
  afterAll(async () => {
    for (const cleanUp of cleanUps) await cleanUp();
  });

  test("S1-18 a cell over its limit: what it printed, the text, and the next call works", async () => {
    const short = await server.program({ args: ["--timeout", "2"] });
    const { session_id } = await short.run("k = 1");
    const looping = await short.run("print('p')\nwhile True: pass", session_id);
    expect(looping).toMatchObject({ result: ["p\n"], error: ["Code execution timed out after 2.0s"] });
    expect(await short.run("k", session_id)).toMatchObject({ result: ["Execution Result: 1"], error: [] });
  });

  test("a cell that does not stop costs the state, and says so", async () => {
    const short = await server.program({ args: ["--timeout", "2"] });
    const stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    const { session_id, error } = await short.run(stubborn);
    expect(error[0]).toBe("Code execution timed out after 2.0s");
    expect(error[1]).toContain("state was lost");
    expect(await short.run("1", session_id)).toMatchObject({ result: ["Execution Result: 1"], error: [] });
  });

  test("S1-19 a value outlives three restarts, and the history does not grow", async () => {
    const dataDir = temporaryDataDir();
    const first = await server.program({ dataDir });
    const { session_id } = await first.run("a = 1");
    await first.close();
    const size = server.text(`${session_id}.txt`);
    expect(size).toBe("\na = 1\n");
    for (const _ of [1, 2, 3]) {
      const again = await server.program({ dataDir });
      expect(await again.run("a", session_id)).toMatchObject({ result: ["Execution Result: 1"], error: [] });
      await again.run("raise ValueError", session_id);
      await again.close();
    }
    expect(server.text(`${session_id}.txt`)).toBe(`\na = 1\n${"\na\n".repeat(3)}`);
  });

  test("S1-20 a history whose second cell fails", async () => {
    const dataDir = temporaryDataDir();
    const first = await server.program({ dataDir });
    const { session_id } = await first.run("echo text > gone");
    await first.run("b = open('gone').read()", session_id);
    await first.run("rm gone\nc = 3", session_id);
    await first.close();
    const again = await server.program({ dataDir });
    const { result, error } = await again.run("c", session_id);
    expect(error).toEqual([]);
    expect(result).toEqual([
      expect.stringMatching(/^Restore warning: cell 2 failed: FileNotFoundError: .*gone'$/),
      "Execution Result: 3",
    ]);
    expect((await again.run("c", session_id)).result).toEqual(["Execution Result: 3"]);
    await again.close();
    // As written by another program, which does not mark where cells end.
    writeFileSync(server.file("777.txt"), "\na = 1\n\nraise ValueError('then')\n\nif a:\n    b = 2\n\n    c = 3\n");
    const last = await server.program();
    const restored = await last.run("(a, b, c)", 777);
    expect(restored).toMatchObject({
      result: ["Restore warning: cell 2 failed: ValueError: then", "Execution Result: (1, 2, 3)"],
      error: [],
    });
    expect((await last.run("a", 777)).result).toEqual(["Execution Result: 1"]);
  });

  test("S1-24 option, environment, .env and default, in this order", () => {
    const cwd = mkdtempSync(join(tmpdir(), "cw-s1-"));
    onTestFinished(() => rmSync(cwd, { recursive: true }));
    writeFileSync(
      join(cwd, ".env"),
      "JUPYTER_BASE_URL=http://127.0.0.1:3\nJUPYTER_TOKEN=from-file\n# no\nPATH=/none\n",
    );
    const tried = (args: string[], env: Record<string, string>) =>
      /server at (\S+):/.exec(leaveAtOnce(["--toolset", NAME, ...args], { env, cwd }).stderr)?.[1];
    const option = ["--jupyter-base-url", "http://127.0.0.1:1"];
    const variable = { JUPYTER_BASE_URL: "http://127.0.0.1:2" };
    expect(tried(option, variable)).toBe("http://127.0.0.1:1");
    expect(tried([], variable)).toBe("http://127.0.0.1:2");
    expect(tried([], {})).toBe("http://127.0.0.1:3");
    // Set but empty: then the file does not count.
    expect(leaveAtOnce(["--toolset", NAME], { env: { JUPYTER_TOKEN: "" }, cwd }).stderr).toContain("JUPYTER_TOKEN is");
    rmSync(join(cwd, ".env"));
    expect(tried(["--jupyter-token", "t"], {})).toBe("http://localhost:8888");
  });

  test("S1-25 what it says when it cannot start", async () => {
    const missing = leaveAtOnce(["--toolset", NAME]);
    expect(missing).toEqual({
      status: 1,
      stdout: "",
      stderr:
        "Invalid configuration: JUPYTER_TOKEN is required (provide via --jupyter-token or environment variable)\n",
    });
    // The command line overrides the environment.
    expect(leaveAtOnce(["--toolset", NAME, "--jupyter-token", ""], { env: { JUPYTER_TOKEN: "secret" } })).toEqual(
      missing,
    );
    const { usage, refused } = commandLines[NAME];
    const [, error] = refused.find(([args]) => String(args) === "--bogus") ?? [];
    expect(leaveAtOnce(["--toolset", NAME, "--bogus"])).toEqual({
      status: 2,
      stdout: "",
      stderr: `${usage.join("\n")}\n${error}\n`,
    });
    const url = `http://127.0.0.1:${await freePort()}`;
    const advice = "Please check your configuration and ensure Jupyter server is running.\n";
    const unserved = leaveAtOnce(["--toolset", NAME, "--jupyter-base-url", `${url}/`, "--jupyter-token", "secret"]);
    expect({ ...unserved, stderr: undefined }).toEqual({ status: 1, stdout: "", stderr: undefined });
    expect(unserved.stderr).toMatch(
      new RegExp(
        `^Failed to connect to Jupyter server at ${url}: Cannot connect to Jupyter server at ${url}: .+\\n${advice}$`,
      ),
    );
    const wrong = leaveAtOnce([
      "--toolset",
      NAME,
      "--jupyter-base-url",
      server.jupyter.url,
      "--jupyter-token",
      "wrong",
    ]);
    expect({ ...wrong, stderr: undefined }).toEqual({ status: 1, stdout: "", stderr: undefined });
    expect(wrong.stderr).toMatch(
      new RegExp(
        `^Failed to connect to Jupyter server at ${server.jupyter.url}: Authorization failed: 403 .+\\n${advice}$`,
      ),
    );
    expect(wrong.stderr).not.toContain("wrong");
  });

  test("S1-26 a prefix is kept, and the token is in no address", async () => {
    const prefixed = await S1Server.start(python, NAME, onTestFinished, "/user/a/");
    const proxy = await TcpProxy.to(Number(new URL(prefixed.jupyter.url).port));
    onTestFinished(() => proxy.close());
    let sent = "";
    proxy.tap = (bytes) => {
      sent += bytes.toString("latin1");
    };
    const through = await prefixed.program({ args: ["--jupyter-base-url", `${proxy.through(prefixed.jupyter.url)}/`] });
    expect((await through.run("6 * 7")).result).toEqual(["Execution Result: 42"]);
    await through.close();
    const { token } = prefixed.jupyter;
    const heads = [...sent.matchAll(/(GET|POST|PUT|DELETE) (\S+) HTTP\/1\.1\r\n(.*?)\r\n\r\n/gs)];
    expect(heads.length).toBeGreaterThan(4);
    for (const [, , path, headers] of heads) {
      expect(path).toMatch(/^\/user\/a\/api(\/|$)/);
      expect(path).not.toContain(token);
      expect(headers).toMatch(new RegExp(`^Authorization: token ${token}\\r?$`, "im"));
    }
    expect(
      heads.some(([, , path, headers]) => path?.includes("/channels") && /upgrade: websocket/i.test(headers ?? "")),
    ).toBe(true);
    expect(sent).toMatch(/POST \/user\/a\/api\/kernels HTTP\/1\.1\r\n.*?\r\n\r\n\{"name":"python3"\}/s);
    expect(sent).toMatch(/DELETE \/user\/a\/api\/kernels\//);
  });

  test("S1-27 version and help", () => {
    for (const flag of ["--version", "-v"]) {
      const expected = { status: 0, stdout: "jupyter-interpreter-mcp 0.2.1\n", stderr: "" };
      expect(leaveAtOnce(["--toolset", NAME, flag])).toEqual(expected);
    }
    const help = leaveAtOnce(["--toolset", NAME, "--help"]);
    expect(help.status).toBe(0);
    for (const flag of ["--jupyter-base-url", "--jupyter-token", "--notebooks-folder", "--version", "-v", "--help"]) {
      expect(help.stdout).toContain(flag);
    }
  });

  describe("S1-28", () => {
    test("S1-28 a broken connection costs nothing; an unreachable server is reported in a line; kernels are removed", async () => {
      const own = await S1Server.start(python, NAME, onTestFinished);
      const proxy = await TcpProxy.to(Number(new URL(own.jupyter.url).port));
      onTestFinished(() => proxy.close());
      const through = await own.program({ args: ["--jupyter-base-url", proxy.through(own.jupyter.url)] });
      const { session_id } = await through.run("import os, time");
      const began = join(own.jupyter.home, "began");
      const code = `open(${JSON.stringify(began)}, 'w').close()\nprint('before')\ntime.sleep(2)\nprint('after')`;
      const running = through.run(code, session_id);
      await until("the cell to begin", () => own.has("..", "began"));
      proxy.reset();
      expect(await running).toMatchObject({ result: ["before\nafter\n"], error: [] });
      await through.close();
      expect(await own.kernels()).toEqual([]);

      const direct = await own.program();
      const other = await direct.run("import time");
      rmSync(began);
      const lost = direct.run(`open(${JSON.stringify(began)}, 'w').close()\ntime.sleep(60)`, other.session_id);
      await until("the cell to begin", () => own.has("..", "began"));
      await own.jupyter.kill();
      const { error } = await lost;
      expect(error).toHaveLength(1);
      expect(error[0]).toMatch(/^[^\n]+$/);
    }, 120_000);
  });

  test("a kernel that cannot be started is reported in `error`", async () => {
    const own = await S1Server.start(python, NAME, onTestFinished);
    const alone = await own.program();
    await own.jupyter.kill();
    const { error, result, session_id } = await alone.run("1");
    expect({ result, session_id }).toEqual({ result: [], session_id: 0 });
    expect(error).toEqual([expect.stringMatching(/^Failed to execute code: [^\n]+$/)]);
    expect((await alone.run("1", 99)).session_id).toBe(99);
  });
});

describeWith("debianJupyterServer", "S1a on the oldest server that must work", (python) => {
  test("cells, commands and a session that comes back", async () => {
    const server = await S1Server.start(python, NAME, onTestFinished);
    const dataDir = temporaryDataDir();
    const first = await server.program({ dataDir });
    const { session_id } = await first.run("x = 42\nmkdir d1\ncd d1");
    expect((await first.run("ls -d ../d1; echo $((1 + 1))", session_id)).result).toEqual(["../d1\n2\n"]);
    expect((await first.run("ls missing-name", session_id)).error).toEqual(["Error: command exited with status 2"]);
    await first.close();
    const again = await server.program({ dataDir });
    const { result } = await again.run("import os\n(x, os.path.basename(os.getcwd()))", session_id);
    expect(result).toEqual(["Execution Result: (42, 'd1')"]);
  });
});
