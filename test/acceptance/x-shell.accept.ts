/** Shell commands as cells, in the toolset of the system that has them: jupyter-interpreter-mcp. */

import { expect, test } from "vitest";
import { describeWith } from "../support/requirements.ts";
import { S1Server } from "./s1-support.ts";
import { shared } from "./x-support.ts";

describeWith("jupyterServer", "shell commands", (python) => {
  const program = shared(async (atEnd) => {
    const server = await S1Server.start(python, "jupyter-interpreter-mcp", atEnd);
    return server.program({ atEnd });
  });

  test("X-17 commands run as they are: alone, in lines, in a pipe, beside Python, and in the folder that cd chose", async () => {
    const { session_id } = await program().run("print('a session')");
    const run = async (code: string) => {
      const { result, error } = await program().run(code, session_id);
      expect({ code, error }).toEqual({ code, error: [] });
      return result.join("");
    };
    expect(await run("echo hi")).toBe("hi\n");
    expect(await run("git --version")).toMatch(/^git version/);
    expect(await run("echo one\necho two")).toBe("one\ntwo\n");
    expect(await run("echo b-side | tr b s")).toBe("s-side\n");
    await run("mkdir -p below && touch below/inside.txt");
    await run("cd below");
    expect(await run("pwd")).toMatch(/\/below'?\n?$/);
    expect(await run("import os\nls")).toContain("inside.txt");
    expect(await run("print(os.path.basename(os.getcwd()))")).toBe("below\n");
  });

  test("X-18 what Python can make sense of is Python, whatever it looks like", async () => {
    const { session_id } = await program().run("ls = 3");
    const run = async (code: string) => program().run(code, session_id);
    expect(await run("ls")).toMatchObject({ result: ["Execution Result: 3"], error: [] });
    await run("a, b = 5, 3");
    expect(await run("a -b")).toMatchObject({ result: ["Execution Result: 2"], error: [] });
  });
});
