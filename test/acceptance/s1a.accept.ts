/** jupyter-interpreter-mcp 0.2.1: its one tool, over stdio, on a real Jupyter server. Each name begins with its case. */

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { describeWith } from "../support/requirements.ts";
import data from "./data/jupyter-interpreter-mcp.json" with { type: "json" };
import { type CellAnswer, type S1Program, S1Server } from "./s1-support.ts";
import { imagesOf, textOf } from "./toolset-program.ts";

const NAME = "jupyter-interpreter-mcp";

describeWith("jupyterServer", "S1a jupyter-interpreter-mcp 0.2.1", (python) => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  const atEnd = (cleanUp: () => void | Promise<void>) => void cleanUps.unshift(cleanUp);
  let server: S1Server;
  let program: S1Program;
  let silent: Promise<CellAnswer>;
  /** A session shared by cases that do not interfere. */
  let id: number;

  beforeAll(async () => {
    server = await S1Server.start(python, NAME, atEnd);
    program = await server.program({ atEnd });
    id = (await program.run("x = 42\nprint(x)")).session_id as number;
    const code = "import time\nprint('first', flush=True)\ntime.sleep(40)\nprint('second')";
    silent = program.run(code, 4040).catch((error) => error);
  });
  afterAll(async () => {
    for (const cleanUp of cleanUps) await cleanUp();
  });

  test("S1-01 exactly one tool, with the original's schema", async () => {
    const { tools } = await program.client.listTools();
    expect(tools).toEqual(data.tools);
    expect(tools[0]?.inputSchema.properties?.session_id).toMatchObject({ type: "integer", default: 0 });
    expect(program.client.getServerVersion()).toMatchObject({ name: "Code Interpreter", version: "0.2.1" });
  });

  test("S1-02 a new session, and what was printed", async () => {
    const { reply, ...answer } = await program.run("x = 42\nprint(x)");
    expect(answer).toEqual({ result: ["42\n"], error: [], session_id: expect.any(Number) });
    expect(answer.session_id).toBeGreaterThan(0);
    expect(Number.isSafeInteger(answer.session_id)).toBe(true);
    expect(Object.keys(reply.structuredContent ?? {})).toEqual(["error", "result", "session_id"]);
    expect(reply.isError ?? false).toBe(false);
  });

  test("S1-03 the same session again", async () => {
    expect(await program.run("print(x * 2)", id)).toMatchObject({ result: ["84\n"], error: [], session_id: id });
  });

  test("S1-04, S1-05 the last expression, after what was printed", async () => {
    expect((await program.run("x", id)).result).toEqual(["Execution Result: 42"]);
    expect((await program.run("print(1)\nx", id)).result).toEqual(["1\n", "Execution Result: 42"]);
  });

  test("S1-06 an exception is no error of the tool", async () => {
    const { reply, result, error } = await program.run("1/0", id);
    expect({ result, error }).toEqual({ result: [], error: ["Error: ZeroDivisionError: division by zero"] });
    expect(reply.isError).not.toBe(true);
  });

  test("S1-07 ten sessions at once have ten ids", async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, () => program.run("1")));
    expect(new Set(answers.map(({ session_id }) => session_id)).size).toBe(10);
    expect(answers.map(({ error }) => error)).toEqual(Array(10).fill([]));
  }, 120_000);

  test("S1-08 an unknown id starts a session", async () => {
    expect(await program.run("u = 7", 12345)).toMatchObject({ error: [], session_id: 12345 });
    expect((await program.run("u", 12345)).result).toEqual(["Execution Result: 7"]);
  });

  test("S1-09 shell commands that are cells", async () => {
    const { session_id } = await program.run("ls -la");
    const run = (code: string) => program.run(code, session_id);
    expect((await run("ls -la")).result.join()).toMatch(/total \d+\n.* \.\/?\n/s);
    expect((await run("pwd")).result).toEqual([expect.stringMatching(/^Execution Result: '\/.+'$/)]);
    expect(await run("mkdir d1")).toMatchObject({ error: [], result: [] });
    expect((await run("ls")).result).toEqual(["d1/\n"]);
    expect((await run("cd d1")).result.join()).toMatch(/\/d1\n$/);
    expect((await run("import os; os.getcwd()")).result.join()).toMatch(/d1'$/);
  });

  test("S1-10 commands that are no magics", async () => {
    expect(await program.run("echo hi", id)).toMatchObject({ result: ["hi\n"], error: [] });
    expect(await program.run("whoami", id)).toMatchObject({ result: [expect.stringMatching(/^\S+\n$/)], error: [] });
    const git = await program.run("git --version", id);
    expect(git).toMatchObject({ result: [expect.stringMatching(/^git version/)], error: [] });
  });

  test("S1-11 several commands", async () => {
    const { session_id } = await program.run("touch here");
    expect(await program.run("ls\npwd", session_id)).toMatchObject({
      result: [expect.stringMatching(/^here\n\/.*\n$/)],
      error: [],
    });
    expect(await program.run("ls; echo x", session_id)).toMatchObject({ result: ["here\nx\n"], error: [] });
  });

  test("S1-12 Python and a command", async () => {
    const { session_id, error, result } = await program.run("import os\nls /");
    expect(error).toEqual([]);
    expect(result.join()).toContain("etc");
    expect((await program.run("os.sep", session_id)).result).toEqual(["Execution Result: '/'"]);
  });

  test("S1-13 a name that is defined is no command", async () => {
    const { session_id } = await program.run("ls = 3");
    expect((await program.run("ls", session_id)).result).toEqual(["Execution Result: 3"]);
  });

  test("S1-14 a mistake in Python stays one", async () => {
    const { error } = await program.run("for x in", id);
    expect(error).toEqual([expect.stringMatching(/^Error: SyntaxError: invalid syntax \(.*line 1\)$/)]);
  });

  test("S1-15 a command that fails", async () => {
    const { result, error } = await program.run("ls missing-name", id);
    expect(result.join()).toContain("missing-name");
    expect(error).toEqual(["Error: command exited with status 2"]);
    expect(JSON.stringify(result)).not.toContain("\\u001b");
  });

  test("S1-16 IPython's own marks", async () => {
    expect((await program.run("!echo a", id)).result).toEqual(["a\n"]);
    expect((await program.run("%%bash\necho b", id)).result).toEqual(["b\n"]);
    await program.run("y = !echo c", id);
    expect((await program.run("y", id)).result).toEqual(["Execution Result: ['c']"]);
  });

  test("a kernel that dies is reported at once, and the next cell works", async () => {
    const { session_id } = await program.run("kept = 5");
    const { error } = await program.run("import os; os._exit(1)", session_id);
    expect(error).toHaveLength(1);
    expect(error[0]).toContain("kernel died");
    expect(error[0]).toContain("state was lost");
    expect((await program.run("kept", session_id)).result).toEqual(["Execution Result: 5"]);
  });

  test("S1-21 names of the user's own are left alone", async () => {
    const { session_id } = await program.run("f = 5; line = 6; os = 7");
    expect((await program.run("(f, line, os)", session_id)).result).toEqual(["Execution Result: (5, 6, 7)"]);
  });

  test("S1-22 three megabytes at once", async () => {
    const { result, error, reply } = await program.run("print('x' * 3 * 1024 * 1024)", id);
    expect(error).toEqual([]);
    // A server with a rate limit drops some of it, which is reported.
    expect(result.slice(1).join()).toMatch(/^(\n<Output is missing here: .*)?$/s);
    expect(result[0]?.length).toBeLessThanOrEqual(24_000);
    expect(/^x+\n\[… [\d\s]+ characters left out; all of it is in cell:\/\/\S+ …\]\nx+\n?$/.test(result[0] ?? "")).toBe(
      true,
    );
    const link = reply.content.find(({ type }) => type === "resource_link");
    const { contents } = await program.client.readResource({ uri: String(link?.uri) });
    expect(JSON.stringify(contents[0]).length).toBeGreaterThan(1_000_000);
  });

  test("S1-23 a plot is a picture, and not in the text", async () => {
    const { reply, result, error } = await program.run(
      "import matplotlib.pyplot as plt\nplt.plot([1]); plt.show()",
      id,
    );
    expect(error).toEqual([]);
    expect(imagesOf(reply)).toHaveLength(1);
    expect(imagesOf(reply)[0]?.subarray(1, 4).toString()).toBe("PNG");
    expect(result.join().length).toBeLessThan(500);
    expect(textOf(reply)).not.toContain("iVBOR");
  });

  test("wrong arguments are named, and start nothing", async () => {
    const before = await server.kernels();
    for (const [args, name] of [
      [{}, "code"],
      [{ code: 5 }, "code"],
      [{ code: "1", session_id: "abc" }, "session_id"],
      [{ code: "1", session_id: 1.5 }, "session_id"],
    ] as const) {
      const reply = await program.call("execute_code", args);
      expect(reply.isError).toBe(true);
      expect(textOf(reply)).toContain(name);
    }
    expect((await program.call("nope")).content).toEqual([{ type: "text", text: "Unknown tool: nope" }]);
    expect((await server.kernels()).length).toBeLessThanOrEqual(before.length);
  });

  test("example: the document's two calls and its shell command", async () => {
    const first = await program.run("x = 42\nprint(x)");
    // The original's documentation omits the printed line end.
    expect(first).toMatchObject({ result: ["42\n"], error: [] });
    const second = await program.run("print(x * 2)", first.session_id);
    expect(second).toMatchObject({ result: ["84\n"], error: [], session_id: first.session_id });
    expect(await program.run("ls -la", first.session_id)).toMatchObject({
      result: [expect.stringContaining("total")],
      error: [],
    });
  });

  describe("golden", () => {
    const saved = new Map<string, number | string>();
    for (const entry of data.golden as Golden[]) {
      test(`golden ${entry.name}`, async () => {
        const session = typeof entry.session === "string" ? (saved.get(entry.session) ?? entry.session) : entry.session;
        const { result, error, session_id } = await program.run(entry.code, session as never);
        if (entry.saves) saved.set(`{${entry.saves}}`, session_id);
        const shown = error.map((line) => line.replace(/\(<cell \d+>, line/, "({CELL}, line"));
        expect(shown).toEqual(entry.error);
        if (entry.result) expect(result).toEqual(entry.result);
        if (entry.resultMatches) expect(JSON.stringify(result)).toMatch(new RegExp(entry.resultMatches));
        if (session) expect(String(session_id)).toBe(String(session));
      });
    }
  });

  test("S1-17 a cell that is silent for long is waited for", async () => {
    expect(await silent).toMatchObject({ result: ["first\nsecond\n"], error: [], session_id: 4040 });
  }, 90_000);
});

interface Golden {
  name: string;
  code: string;
  session?: string | number;
  saves?: string;
  result?: string[];
  resultMatches?: string;
  error: string[];
}
