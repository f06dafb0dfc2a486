/** mcp-run-python: its tool, over its transports, in real interpreters. Each name begins with its case. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { describe, expect, onTestFinished, test } from "vitest";
import { temporaryDataDir } from "../support/program.ts";
import commandLines from "./data/command-lines.json" with { type: "json" };
import { messagesOf, NAME, offline, runProgram, startHttp, startStdio, success } from "./s4-support.ts";
import { imagesOf, textOf } from "./toolset-program.ts";
import { shared } from "./x-support.ts";

/** A 1 × 1 picture that shows itself, without a plotting library. */
const PICTURE = `import base64
class Picture:
    def _repr_png_(self):
        return base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
`;

const inputSchema = {
  type: "object",
  properties: {
    python_code: { type: "string", description: "Python code to run" },
    global_variables: {
      type: "object",
      additionalProperties: {},
      default: {},
      description: "Map of global variables in context when the code is executed",
    },
  },
  required: ["python_code"],
  additionalProperties: false,
  $schema: "http://json-schema.org/draft-07/schema#",
};

const failure = (error: string) => `<status>run-error</status>\n<error>\n${error}\n\n</error>`;

describe("S4 over stdio", () => {
  const xml = shared((atEnd) => startStdio([], { atEnd }));
  const json = shared((atEnd) => startStdio(["--return-mode", "json", "--warm", "1"], { atEnd }));
  const both = async (code: string) => [await xml().run(code), JSON.parse(await json().run(code))] as const;

  test("S4-01 one tool, with its schema key by key, whichever way it is served", async () => {
    const [http, stateless] = await Promise.all([startHttp(), startHttp([], { mode: "streamable-http-stateless" })]);
    for (const { client } of [xml(), http, stateless]) {
      const { tools } = await client.listTools();
      expect(tools).toHaveLength(1);
      expect(tools[0]).toMatchObject({ name: "run_python_code", title: "Run Python code" });
      expect(tools[0]?.inputSchema).toEqual(inputSchema);
      expect(tools[0]?.description).toMatch(
        /^Tool to execute Python code and return stdout, stderr, and return value\.\n.*executed with Python 3\.14\b/s,
      );
    }
  });

  test("S4-02 server name, instructions and capabilities", async () => {
    const { client } = xml();
    expect(client.getServerVersion()?.name).toBe("MCP Run Python");
    expect(client.getInstructions()).toBe('Call the "run_python_code" tool with the Python code to run.');
    expect(Object.keys(client.getServerCapabilities() ?? {}).sort()).toEqual(["logging", "tools"]);
  });

  test("S4-03 output and value", async () => {
    expect(await xml().run("x = 4\nprint(f'{x=}')\nx")).toBe(
      "<status>success</status>\n<output>\nx=4\n</output>\n<return_value>\n4\n</return_value>",
    );
  });

  test("S4-04 output without a value", async () => {
    expect(await xml().run("print(123)")).toBe("<status>success</status>\n<output>\n123\n</output>");
    expect(await json().run("print(123)")).toBe('{"status":"success","output":["123"],"return_value":null}');
  });

  test("S4-05 neither", async () => {
    expect(await xml().run("x = 1")).toBe("<status>success</status>");
  });

  test("S4-06 an exception", async () => {
    const error =
      'Traceback (most recent call last):\n  File "main.py", line 1, in <module>\n    print(unknown)\n          ^^^^^^^\n' +
      "NameError: name 'unknown' is not defined\n";
    const [text, object] = await both("print(unknown)");
    expect(text).toBe(failure(error.trimEnd()));
    expect(object).toEqual({ status: "run-error", output: [], error });
  });

  test("S4-07 frames of the program alone", async () => {
    const text = await xml().run("def foo():\n    1 / 0\n\ndef bar():\n    foo()\n\ndef baz():\n    bar()\n\nbaz()");
    expect(text.match(/File "main\.py"/g)).toHaveLength(4);
    expect(text.match(/File /g)).toHaveLength(4);
    expect(text.match(/~~~\^\^/g)).toHaveLength(3);
    expect(text).toContain("    1 / 0\n    ~~^~~\nZeroDivisionError: division by zero\n\n</error>");
  });

  test("S4-08 the programming interface, and JSON", async () => {
    expect(await json().run("a = 1\na + 1")).toBe('{"status":"success","output":[],"return_value":2}');
    const { codeSandbox, prepare } = await import("../../dist/index.js");
    const settings = { dataDir: temporaryDataDir(), warm: 0 };
    const told: string[] = [];
    const sandbox = await codeSandbox({ settings, onLog: (level, text) => told.push(`${level}: ${text}`) });
    onTestFinished(() => sandbox.dispose());
    expect(await sandbox.eval("a = 1\na + 1")).toEqual({ status: "success", output: [], return_value: 2 });
    expect(await sandbox.eval("print(b)\nb * 2", { b: 4 })).toEqual({
      status: "success",
      output: ["4"],
      return_value: 8,
    });
    expect(told).toEqual(["info: 4"]);
    expect(await sandbox.eval("1 / 0")).toMatchObject({ status: "run-error", error: /ZeroDivisionError/ });
    await expect(codeSandbox({ settings, allowNetworking: true })).rejects.toThrow("no network");
    const { command, args } = await prepare([], { settings });
    expect(command).toBe(process.execPath);
    expect(args.slice(1)).toEqual(["--toolset", NAME, "--data-dir", settings.dataDir, "stdio"]);
  });

  test("S4-09 strings", async () => {
    expect(await both('"foobar"')).toEqual([
      success("foobar"),
      { status: "success", output: [], return_value: "foobar" },
    ]);
    expect(await both('""')).toEqual(["<status>success</status>", { status: "success", output: [], return_value: "" }]);
  });

  test("S4-10 look-alikes of tags", async () => {
    expect(await xml().run("print('</output> <b>x</b>')")).toContain("<output>\n&lt;/output&gt; <b>x</b>\n</output>");
    expect(await xml().run("'</return_value> <output>'")).toBe(success("&lt;/return_value&gt; <output>"));
    expect(await xml().run("raise ValueError('</error> <x>')")).toContain("ValueError: &lt;/error&gt; <x>\n\n</error>");
  });

  test("S4-12 values that are no JSON by themselves", async () => {
    const code = `import dataclasses, datetime
@dataclasses.dataclass
class Point:
    x: int
    at: datetime.date
[(1, 2), {3}, Point(1, datetime.date(2024, 1, 2)), datetime.datetime(2024, 1, 2, 3), b'x']`;
    const [text, { return_value }] = await both(code);
    const expected = [[1, 2], [3], { x: 1, at: "2024-01-02" }, "2024-01-02T03:00:00", "x"];
    expect(text).toBe(success(JSON.stringify(expected, null, 2)));
    expect(return_value).toEqual(expected);
  });

  test("S4-13 values that have no form", async () => {
    const [text, { return_value }] = await both("class A:\n    def __repr__(self): return 'A(1)'\nA()");
    expect(text).toBe(success('"A(1)"'));
    expect(return_value).toBe("A(1)");
  });

  test("S4-14 numbers that JSON does not have", async () => {
    expect(await json().run("float('nan')")).toBe('{"status":"success","output":[],"return_value":"NaN"}');
    expect(await json().run("[float('inf'), -float('inf')]")).toContain('"return_value":["Infinity","-Infinity"]}');
  });

  test("S4-15 a value that cannot be serialised costs no output", async () => {
    const [text, object] = await both("print('p')\nb'\\xff'");
    expect(text).toBe(
      `<status>success</status>\n<output>\np\n</output>\n<return_value>\n"b'\\\\xff'"\n</return_value>`,
    );
    expect(object).toEqual({ status: "success", output: ["p"], return_value: "b'\\xff'" });
  });

  test("S4-16 global variables", async () => {
    expect(await xml().run("a + b", { a: 4, b: 5 })).toBe(success("9"));
    expect(await xml().run("print(f)", { f: { l: [1, 2.5, "x", null], t: true } })).toContain(
      "{'l': [1, 2.5, 'x', None], 't': True}",
    );
    expect(await xml().run("__name__", { __name__: "other" })).toBe(success("__main__"));
  });

  test("S4-17 await at the top level", async () => {
    expect(await xml().run("import asyncio\nawait asyncio.sleep(0)\n'done'")).toBe(success("done"));
  });

  test("S4-18 both streams, line by line", async () => {
    const { output } = JSON.parse(
      await json().run("import sys\nprint('o')\nprint('a\\nb', file=sys.stderr)\nprint('\\x1b[31mp\\x1b[0m')"),
    );
    expect(output).toEqual(["o", "a", "b", "p"]);
  });

  test("S4-19 calls have nothing in common", async () => {
    expect(await xml().run("x = 1\nprint(1, end='')")).toContain("<output>\n1\n</output>");
    expect(await xml().run("print(2)\nx")).toMatch(/<output>\n2\n<\/output>\n<error>.*NameError: name 'x'/s);
    expect(await xml().run("print(3)")).toBe("<status>success</status>\n<output>\n3\n</output>");
  });

  test("S4-20 not their files, nor their modules", async () => {
    await xml().run("import json, os\njson.dumps = None\nopen('a', 'w')\nopen('/tmp/a', 'w')\nos.environ['A'] = '1'");
    const code =
      "import json, os\n[json.dumps is None, os.path.exists('a'), os.path.exists('/tmp/a'), 'A' in os.environ]";
    expect(JSON.parse(await json().run(code)).return_value).toEqual([false, false, false, false]);
    expect(await xml().run(code)).not.toContain("true");
  });

  test("S4-22 two script blocks", async () => {
    const block = '# /// script\n# dependencies = ["alpha"]\n# ///\n';
    const text = await xml().run(`${block}\n${block}print('ran')`);
    expect(text).toMatch(/^<status>install-error<\/status>\n.*<error>\n.*Multiple script blocks found/s);
    expect(text).not.toContain("ran\n");
  });

  test("S4-25 a syntax error is Python's to tell", async () => {
    const text = await xml().run("import nosuchmodule\ndef");
    expect(text).toMatch(
      /^<status>run-error<\/status>\n<error>\nTraceback.*SyntaxError: invalid syntax\n\n<\/error>$/s,
    );
    expect(text).not.toContain("<dependencies>");
  });

  test("S4-27 log messages at the level that was asked for", async () => {
    const { client, run } = await startStdio(["--warm", "1"]);
    const messages = messagesOf(client);
    const code = "import sys\nprint('o')\nprint('e', file=sys.stderr)";
    const toldAt = async (level?: "info" | "warning" | "error") => {
      if (level) await client.setLoggingLevel(level);
      messages.length = 0;
      await run(code);
      return messages.map(({ level, data }) => `${level}: ${data}`);
    };
    expect(await toldAt()).toEqual([]);
    expect(await toldAt("info")).toEqual(["info: o", "warning: e"]);
    expect(await toldAt("warning")).toEqual(["warning: e"]);
    expect(await toldAt("error")).toEqual([]);
  });

  test("S4-33 memory without end, and a crash", async () => {
    const { run } = await startStdio(["--memory-mb", "192", "--warm", "1"]);
    const hungry = run("kept = []\nwhile True: kept.append(bytearray(10**7))");
    const other = xml().run("1");
    expect(await hungry).toMatch(/^<status>run-error<\/status>\n<error>\n.*(MemoryError|memory)/s);
    expect(await other).toBe(success("1"));
    expect(await run("import os\nos.system('ls')")).toMatch(/^<status>(run-error|success)</);
    expect(await run("import os\nos._exit(3)")).toMatch(/^<status>run-error<.*kernel died.*state was lost/s);
    expect(await run("import sys\nsys.exit(3)")).toMatch(/^<status>run-error<.*SystemExit: 3/s);
    expect(await run("2")).toBe(success("2"));
  });

  test("S4-35 code cannot reach the server", async () => {
    const secrets = mkdtempSync(join(tmpdir(), "cellwright-secret-"));
    onTestFinished(() => rmSync(secrets, { recursive: true, force: true }));
    writeFileSync(join(secrets, "secret.txt"), "a secret");
    const { run, client } = await startStdio(["--warm", "1"], { env: { SECRET_TOKEN: "a secret" } });
    await run(`import js, pyodide_js
js.JSON.stringify = lambda *args: '{"forged": true}'
pyodide_js.constructor.constructor("""
  globalThis.JSON.stringify = () => '{}';
  globalThis.postMessage({ tools: [{ name: 'renamed' }] });
""")()`);
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["run_python_code"]);
    const steal = `import js, os
found = [dict(os.environ)]
for attempt in ("Deno.env.toObject()", "Deno.readTextFileSync('${secrets}/secret.txt')", "Deno.readTextFileSync('/proc/self/environ')"):
    try: found.append(str(js.eval(attempt)))
    except BaseException as error: found.append(type(error).__name__)
try: found.append(open('${secrets}/secret.txt').read())
except OSError as error: found.append(type(error).__name__)
found`;
    const text = await run(steal);
    expect(text).toContain("<status>success</status>");
    expect(text).not.toContain("a secret");
    expect(await run("1 + 1")).toBe(success("2"));
  });

  test("S4-36 files in, files out, and pictures", async () => {
    const folder = mkdtempSync(join(tmpdir(), "cellwright-data-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(join(folder, "in.txt"), "read me");
    const { call, run } = await startStdio(["--allow-read", folder, "--warm", "1"]);
    const reply = await call("run_python_code", {
      python_code: `${PICTURE}print(open('${folder}/in.txt').read())
open('output_files/a.txt', 'w').write('written')
open('output_files/b.bin', 'wb').write(b'\\xff\\x00')
display(Picture())`,
    });
    expect(textOf(reply)).toBe("<status>success</status>\n<output>\nread me\n</output>");
    expect(imagesOf(reply)).toHaveLength(1);
    const files = reply.content.filter(({ type }) => type === "resource") as unknown as { resource: object }[];
    expect(files.map(({ resource }) => resource)).toEqual([
      { uri: "file:///output_files/a.txt", mimeType: "text/plain", text: "written" },
      { uri: "file:///output_files/b.bin", mimeType: "application/octet-stream", blob: "/wA=" },
    ]);
    expect(await run(`open('${folder}/new', 'w')`)).toContain("PermissionError");
  });
});

describe("S4 on the command line", () => {
  test("S4-28 modes, options and exit codes", async () => {
    const [version, noMode, port, without, unknown] = await Promise.all([
      runProgram(["--version"]),
      runProgram([]),
      runProgram(["stdio", "--port", "1"]),
      runProgram(["--data-dir", temporaryDataDir(), ...offline, "example"]),
      runProgram(["stdio", "--bogus"]),
    ]);
    const { usage, refused } = commandLines["mcp-run-python"];
    const [, error] = refused.find(([args]) => String(args) === "stdio,--bogus") ?? [];
    expect(unknown).toEqual({ code: 2, stdout: "", stderr: `${usage.join("\n")}\n${error}\n` });
    expect(version).toMatchObject({ code: 0, stdout: expect.stringMatching(/^mcp-run-python \d+\.\d+\.\d+\n$/) });
    expect(noMode).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("Mode is required") });
    expect(port).toEqual({ code: 1, stdout: "", stderr: "Port is only supported for `streamable_http` modes\n" });
    expect(without.code).toBe(1);
    expect(without.stdout).toMatch(/^Tool return value:\n<status>run-error<.*No module named 'numpy'/s);
  });
});

describe("S4 over HTTP", () => {
  // Clients of the original have no token, and do not know the answers to a missing one.
  const server = shared((atEnd) => startHttp(["--insecure", "--timeout", "12"], { atEnd }));
  const post = (body: string, headers = {}, url = server().url) =>
    fetch(url, {
      method: "POST",
      body,
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
    });
  const list = '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}';
  const answer = async (response: Response) => {
    const type = response.headers.get("content-type")?.split(";")[0];
    return [
      response.status,
      type,
      type === "application/json" ? ((await response.json()) as { error: unknown }).error : await response.text(),
    ];
  };

  test("S4-29 requests that are not served", async () => {
    const { url } = server();
    const text = "text/plain";
    const noSession = { code: -32000, message: "Bad Request: No valid session ID provided" };
    for (const path of ["x", "mcp/"]) {
      expect(await answer(await fetch(new URL(path, url)))).toEqual([404, text, "Page not found\n"]);
    }
    expect(await answer(await fetch(url, { method: "PUT" }))).toEqual([405, text, "Method not allowed\n"]);
    expect(await answer(await post(list))).toEqual([400, "application/json", noSession]);
    expect(await answer(await post(list, { "mcp-session-id": "unknown" }))).toEqual([
      400,
      "application/json",
      noSession,
    ]);
    expect(await answer(await fetch(url))).toEqual([400, text, "Invalid or missing session ID\n"]);
    const gone = { method: "DELETE", headers: { "mcp-session-id": "unknown" } };
    expect(await answer(await fetch(url, gone))).toEqual([400, text, "Invalid or missing session ID\n"]);
    const stateless = await startHttp(["--insecure"], { mode: "streamable-http-stateless" });
    const notAllowed = { code: -32000, message: "Method not allowed." };
    expect(await answer(await fetch(stateless.url, { method: "PUT" }))).toEqual([405, "application/json", notAllowed]);
    expect((await fetch(stateless.url, { method: "DELETE" })).status).toBe(200);
    expect(await answer(await fetch(new URL("x", stateless.url)))).toEqual([404, text, "Page not found\n"]);
    expect(await (await post(list, {}, stateless.url)).text()).toContain("run_python_code");
    expect(await stateless.run("1")).toBe(success("1"));
  });

  test("S4-30 a body that is no JSON", async () => {
    const [status, , error] = await answer(await post("{bad"));
    expect([status, error]).toMatchObject([400, { code: -32700 }]);
    expect(await server().run("1")).toBe(success("1"));
  });

  test("S4-31 clients do not hear each other", async () => {
    const connect = async () => {
      const client = new Client({ name: "another", version: "1.0.0" });
      await client.connect(new StreamableHTTPClientTransport(new URL(server().url)) as never);
      onTestFinished(() => client.close());
      return client;
    };
    const talk = async (marker: string, level: "info" | "error") => {
      const client = await connect();
      const messages = messagesOf(client);
      await client.setLoggingLevel(level);
      const python_code = `for _ in range(20): print('${marker}')`;
      for (let call = 0; call < 2; call += 1) {
        const reply = await client.callTool({ name: "run_python_code", arguments: { python_code } });
        const lines = Array(20).fill(marker).join("\n");
        expect(textOf(reply as never)).toBe(`<status>success</status>\n<output>\n${lines}\n</output>`);
      }
      return messages.map(({ data }) => data);
    };
    const [one, other] = await Promise.all([talk("one", "info"), talk("other", "error")]);
    expect(one).toEqual(Array(40).fill("one"));
    expect(other).toEqual([]);
  });

  test("S4-32 an endless loop ends at the limit, and does not delay others", async () => {
    const other = await startHttpClient(server().url);
    let isOver = false;
    const endless = server()
      .run("print('began')\nwhile True: pass")
      .finally(() => {
        isOver = true;
      });
    const reply = await other.callTool({ name: "run_python_code", arguments: { python_code: "1" } });
    expect(textOf(reply as never)).toBe(success("1"));
    expect(isOver).toBe(false);
    expect(await endless).toMatch(
      /^<status>run-error<\/status>\n<output>\nbegan\n<\/output>\n<error>\n.*\nTimeoutError: execution exceeded 12 s\n\n<\/error>$/s,
    );
    expect(await server().run("2")).toBe(success("2"));
  });

  test("S4-32 code that does not let itself be stopped", async () => {
    const { run } = await startStdio(["--timeout", "1"]);
    const stubborn = "while True:\n    try:\n        while True: pass\n    except BaseException: pass";
    expect(await run(stubborn)).toMatch(/state was lost\.\nTimeoutError: execution exceeded 1 s\n\n<\/error>$/);
    expect(await run("2")).toBe(success("2"));
  });

  async function startHttpClient(url: string): Promise<Client> {
    const client = new Client({ name: "another", version: "1.0.0" });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)) as never);
    onTestFinished(() => client.close());
    return client;
  }

  test("S4-34 without a network, over either transport", async () => {
    const [stdio, http] = await Promise.all([
      startStdio(["--disable-networking"]),
      startHttp(["--disable-networking"]),
    ]);
    for (const { run } of [stdio, http]) {
      const text = await run("import urllib.request\nurllib.request.urlopen('http://localhost')");
      expect(text).toMatch(/^<status>run-error<.*localhost cannot be reached/s);
    }
    expect(await http.run("import js\nawait js.fetch('http://localhost')")).toMatch(/^<status>run-error<.*localhost/s);
    expect(await http.run("1")).toBe(success("1"));
  });
});
