import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { failure, result, run as runCell, runUntilReady, text } from "../../contracts/kernel.ts";
import { testPython } from "../../support/pythons.ts";
import { describeWith } from "../../support/requirements.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

describeWith("managedPython", "a line that is a shell command", async () => {
  const kernels = providerKernels(builtFrom({ kernel: "local", env: testPython("managed"), jail: "none" }));
  const { kernel, workspaceDir } = await kernels.start();

  const run = (code: string, { replay = false } = {}) => runCell(kernel, code, { commands: true, replay });

  beforeEach(async () => {
    await run(`import os; os.chdir(${JSON.stringify(workspaceDir)})\n%reset -f`);
  });

  describe("is run by a shell", () => {
    const commands: Record<string, [code: string, shown: string]> = {
      "a command": ["echo hi", "hi\n"],
      "one that is Python by its looks": ["expr -1", "-1\n"],
      "a pipe": ["printf 'b\\na\\n' | sort", "a\nb\n"],
      "a list": ["true; echo x", "x\n"],
      "with a variable of its own": ["WORD=hi printenv WORD", "hi\n"],
      "a quotation over two lines": ["echo 'one\ntwo'", "one\ntwo\n"],
      "a continued line": ["echo one \\\n  two", "one two\n"],
      "a here-document": ["cat <<END\nx = 1\nEND", "x = 1\n"],
      "a loop after a command": ["true\nfor i in 1 2; do\n  echo $i\ndone", "1\n2\n"],
      "shared variables": ["export A=1\necho $A", "1\n"],
      "after Python": ["import os\nprint('first')\necho second", "first\nsecond\n"],
      "before Python": ["echo first\nprint('second')", "first\nsecond\n"],
      "between blocks of Python": [
        "def f():\n    return 'f'\n\nif True:\n    print(f())\nelse:\n    pass\necho shell\nprint('end')",
        "f\nshell\nend\n",
      ],
    };

    test.each(Object.entries(commands))("%s", async (_name, [code, shown]) => {
      const events = await run(code);
      expect(failure(events)).toBeUndefined();
      expect(text(events)).toBe(shown);
    });

    test("a script of the session's own", async () => {
      writeFileSync(join(workspaceDir, "own.sh"), "#!/bin/sh\necho own\n", { mode: 0o755 });
      expect(text(await run("./own.sh"))).toBe("own\n");
    });

    test("only where that is asked for", async () => {
      expect(failure(await runCell(kernel, "echo hi"))).toMatchObject({ name: "SyntaxError" });
    });
  });

  describe("is Python", () => {
    test("a name that is defined, also in the same cell", async () => {
      await run("ls = 3");
      expect(result(await run("ls"))).toBe("3");
      expect(result(await run("sort = 4\nsort"))).toBe("4");
      expect(result(await run("from operator import add as cat\ncat"))).toBe("<function _operator.add(a, b, /)>");
    });

    test("a sum of names that looks like a command with an option", async () => {
      await run("ls, la = 5, 3");
      expect(result(await run("ls -la"))).toBe("2");
    });

    test.each([
      ["for x in", "SyntaxError"],
      ["print 'x'", "SyntaxError"],
      ["x = (1", "SyntaxError"],
      ["nothing_of_that_name", "NameError"],
      ["date == 3", "NameError"],
      ["date()", "NameError"],
    ])("what fails as Python: %s", async (code, name) => {
      expect(failure(await run(code))).toMatchObject({ name });
    });

    test("a mistake beside a command, at its own line", async () => {
      const events = await run("echo hi\n\nx = (1\n");
      expect(failure(events)?.message).toContain("line 3");
    });

    test("IPython's own marks", async () => {
      expect(text(await run("!echo a"))).toContain("a");
      expect(text(await run("%%bash\necho b"))).toBe("b\n");
      expect(result(await run("y = !echo c\ny"))).toBe("['c']");
    });
  });

  test("a change of directory stays", async () => {
    mkdirSync(join(workspaceDir, "d1/d2"), { recursive: true });
    const inD1 = join(workspaceDir, "d1");
    expect(text(await run("cd d1"))).toBe(`${inD1}\n`);
    expect(result(await run("import os; os.getcwd()"))).toBe(`'${inD1}'`);
    expect(result(await run("pwd"))).toBe(`'${inD1}'`);
    expect(text(await run("cd d2\npwd"))).toBe(`${inD1}/d2\n`);
    expect(text(await run("cd -"))).toBe(`${inD1}\n`);
    expect(text(await run("cd .. && exit 0"))).toBe("");
    expect(result(await run("os.getcwd()"))).toBe(`'${workspaceDir}'`);
  });

  test("an exit status is reported, and the following lines run", async () => {
    const events = await run("ls missing-name\nprint('after')");
    expect(failure(events)).toMatchObject({ name: "command exited with status 2", message: "" });
    expect(text(events, "stderr")).toContain("missing-name");
    expect(text(events)).toBe("after\n");
    expect(failure(await run("cd missing-name"))?.name).toBe("command exited with status 1");
    expect(failure(await run("exec sh -c 'kill -9 $$'"))?.name).toMatch(/^Syntax/);
    expect(failure(await run("sh -c 'kill -9 $$'"))?.name).toBe("command exited with status 137");
  });

  test("no name of ours is left", async () => {
    const before = result(await run("sorted(set(dir()) - {'_', '__', '___'})"));
    await run("echo hi\nls");
    const names = /_i+\d*|_\d+/;
    const kept = (shown: unknown) =>
      String(shown)
        .split(", ")
        .filter((name) => !names.test(name));
    expect(kept(result(await run("sorted(set(dir()) - {'_', '__', '___'})")))).toEqual(kept(before));
  });

  test("an interrupt ends the command and what it started", async () => {
    const marker = `31.${process.pid}`;
    const events = await runUntilReady(
      { ...kernel, execute: (code, options) => kernel.execute(code, { ...options, commands: true }) } as typeof kernel,
      `echo ready; (sleep ${marker}); echo never`,
      () => kernel.interrupt?.(),
    );
    expect(failure(events)).toMatchObject({ name: "KeyboardInterrupt" });
    expect(text(events)).toBe("ready\n");
    expect(text(await run(`pgrep -f "sleep ${marker.replace(".", "[.]")}" || echo none`))).toBe("none\n");
  });

  test("again, only the way to another directory is gone", async () => {
    mkdirSync(join(workspaceDir, "again"), { recursive: true });
    const events = await run("cd again\ntouch made\nx = 1", { replay: true });
    expect(failure(events)).toBeUndefined();
    expect(result(await run("import os; (os.path.basename(os.getcwd()), os.listdir(), x)"))).toBe("('again', [], 1)");
  });
});
