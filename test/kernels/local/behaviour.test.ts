import { decode } from "fast-png";
import { describe, expect, test } from "vitest";
import type { ExecutionEvent } from "../../../src/execution.ts";
import { failure, result, run, runUntilReady, text } from "../../contracts/kernel.ts";
import { until } from "../../support/program.ts";
import { testPython } from "../../support/pythons.ts";
import { describeWith } from "../../support/requirements.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

describeWith("managedPython", "what a local kernel adds to ipykernel", async () => {
  const kernels = providerKernels(builtFrom({ kernel: "local", env: testPython("managed"), jail: "none" }));
  const { kernel, workspaceDir } = await kernels.start();

  function traceback(events: ExecutionEvent[]): string {
    return failure(events)?.traceback.join("\n") ?? "";
  }

  test("magics are loaded before a cell can be interrupted in their import", async () => {
    const modules = "[f'IPython.core.magics.{name}' in sys.modules for name in ('execution', 'script', 'osm')]";
    expect(result(await run(kernel, `import sys\n${modules}`))).toBe("[True, True, True]");
  });

  describe("an interrupt", () => {
    const interruptible = {
      "a sleep": "import time; time.sleep(100)",
      "a regular expression": "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')",
      "an await": "import asyncio; await asyncio.sleep(100)",
      "a loop inside an await": "async def spin():\n    while True: pass\nawait spin()",
      "a flood": "while True: print('x' * 1000)",
      "a repr": "class Slow:\n    def __repr__(self):\n        while True: pass\nSlow()",
      "a process": "import subprocess; subprocess.run(['sleep', '100'])",
      "a lock": "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()",
      "a cell magic": "get_ipython().run_cell_magic('bash', '--no-raise-error', 'sleep 100'); raise TypeError('odd')",
    };

    test.each(Object.entries(interruptible))("stops %s and keeps variables", async (_name, code) => {
      await run(kernel, "kept = 'still here'");
      const ready = `print('ready', flush=True)\n${code}`;
      const events = await runUntilReady(kernel, ready, () => kernel.interrupt?.());
      expect(failure(events)).toMatchObject({ name: "KeyboardInterrupt" });
      expect(result(await run(kernel, "kept"))).toBe("'still here'");
    });

    /** A cell that is interrupted inside `place` of our output code, which holds its locks. */
    const interruptedIn = (place: string, then: string) => `
import signal, sys, time
time.sleep(0.1)
output = sys.stdout._write.func.__self__
library = {'owner': ${place.replace(/\.\w+$/, "")}, 'signal': signal, 'passed': []}
exec(compile("""
real = owner.${place.replace(/^.*\./, "")}
def hit(*args, **options):
    owner.${place.replace(/^.*\./, "")} = real
    signal.raise_signal(signal.SIGINT)
    passed.append(True)
    return real(*args, **options)
owner.${place.replace(/^.*\./, "")} = hit
""", 'library.py', 'exec'), library)
${then}`;

    test("does not break off what holds the locks of all output, and comes right after it", async () => {
      const code = interruptedIn("output.before_write", "print('x', flush=True)\nwhile True: pass");
      expect(failure(await run(kernel, code))).toMatchObject({ name: "KeyboardInterrupt" });
      expect(result(await run(kernel, "library['passed']"))).toBe("[True]");
    });

    test.each([
      ["in a display that is the last thing a cell does", "display('last')"],
      ["while figures are drawn, after the cell's own code", "plt.plot([1, 2, 3]);"],
    ])("nor what sends, %s: the cell ends, and the next one is heard", async (_where, then) => {
      await run(kernel, "import matplotlib.pyplot as plt\nplt.close('all')");
      const events = await run(kernel, interruptedIn("output._outbox._schedule_send", then));
      expect(events.filter(({ type }) => type === "done")).toHaveLength(1);
      expect(result(await run(kernel, "plt.close('all')\nlibrary['passed']"))).toBe("[True]");
    });

    test("comes at any moment of a flood, and the next cell is heard", async () => {
      for (let round = 0; round < 40; round += 1) {
        const events = await runUntilReady(kernel, "while True: print('ready', flush=True)", () =>
          kernel.interrupt?.(),
        );
        expect(failure(events)).toMatchObject({ name: "KeyboardInterrupt" });
        expect(text(await run(kernel, `print(${round})`))).toBe(`${round}\n`);
      }
    });

    test("comes a second time to a cell that caught the first", async () => {
      const code = `
try:
    print('ready', flush=True)
    while True: pass
except KeyboardInterrupt:
    print('caught')
while True: pass`;
      const events = await runUntilReady(kernel, code, () => kernel.interrupt?.());
      expect(text(events)).toBe("ready\ncaught\n");
      expect(failure(events)).toMatchObject({ name: "KeyboardInterrupt" });
    });

    test("does nothing between cells", async () => {
      await kernel.interrupt?.();
      expect(result(await run(kernel, "1 + 1"))).toBe("2");
    });

    test("is heard although a cell had a handler of its own", async () => {
      await run(kernel, "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)");
      const events = await runUntilReady(kernel, "print('ready')\nwhile True: pass", () => kernel.interrupt?.());
      expect(failure(events)).toMatchObject({ name: "KeyboardInterrupt" });
    });
  });

  describe("output", () => {
    test("of a thread that was left behind is its own cell's, displays too", async () => {
      const late: ExecutionEvent[] = [];
      await run(
        kernel,
        "import threading\ngo = threading.Event()\n" +
          "def work():\n    go.wait(); print('late'); display('shown late'); print('twice')\n" +
          "thread = threading.Thread(target=work); thread.start()",
        { onLate: (event) => late.push(event) },
      );
      const next = await run(kernel, "print('next'); go.set(); thread.join(); print('end')");
      expect(text(next)).toBe("next\nend\n");
      expect(text(late)).toBe("late\ntwice\n");
      expect(late[1]).toMatchObject({ type: "display", data: { "text/plain": "'shown late'" } });
    });

    test("of processes is in order, and that of forked Python processes arrives", async () => {
      const code =
        "import os, subprocess, sys, multiprocessing\nprint('a'); os.system('echo b'); print('c')\n" +
        "subprocess.run(['echo', 'd'], stdout=sys.stdout); print('e')\n" +
        "with multiprocessing.get_context('fork').Pool(1) as pool: pool.map(print, ['f'])\n'value'";
      const late: ExecutionEvent[] = [];
      const events = await run(kernel, code, { onLate: (event) => late.push(event) });
      // Output of a fork goes through a thread of the kernel, which may send it after the end of the cell.
      await until("the fork's own", () => text([...events, ...late]) === "a\nb\nc\nd\ne\nf\n");
      expect(events.at(-2)).toMatchObject({ type: "result", data: { "text/plain": "'value'" } });
    });

    test("that is more than can be shown is cut, and its end is kept", async () => {
      let chars = 0;
      const shown: string[] = [];
      for await (const event of kernel.execute(
        "for i in range(150): print('x' * 1_000_000)\nprint('the end')\nclass Big:\n" +
          "    def _repr_html_(self): return 'x' * 20_000_000\nBig()",
      )) {
        if (event.type === "stream") {
          expect(event.text.length).toBeLessThanOrEqual(256 * 1024);
          chars += event.text.length;
          shown.push(event.text.slice(-200));
        } else if (event.type === "result") shown.push(String(event.data["text/plain"]));
      }
      expect(chars).toBeLessThan(65 * 1024 * 1024);
      expect(shown.join("")).toContain("characters left out here");
      expect(shown.join("")).toContain("the end\n");
    });

    test("waits for a slow reader", async () => {
      const before = process.memoryUsage().rss;
      let chars = 0;
      for await (const event of kernel.execute("for i in range(60): print('y' * 1_000_000)\nprint('the end')")) {
        if (event.type !== "stream") continue;
        const isFirst = chars === 0;
        chars += event.text.length;
        if (!isFirst) continue;
        // Replies still arrive meanwhile: only output is held back.
        for (let look = 0; look < 100; look += 1) await kernel.inspect?.({ limit: 1 });
        expect(process.memoryUsage().rss - before).toBeLessThan(48 * 1024 * 1024);
      }
      expect(chars).toBe(60_000_060 + "the end\n".length);
    });
  });

  describe("what cannot be done is said", () => {
    test.each([
      ["input()", "input('name? ')", "EOFError", "pass it in with the call's variables"],
      ["getpass", "import getpass; getpass.getpass()", "EOFError", "pass it in with the call's variables"],
      ["stdin", "import sys; sys.stdin.readline()", "EOFError", "pass it in with the call's variables"],
      ["a shell line", "git status", "SyntaxError", 'language="bash"'],
      ["a shell line that is Python", "ls -la", "NameError", 'language="bash"'],
      ["a bare pip line", "pip install six", "SyntaxError", "install_packages"],
      ["a missing package", "import not_there", "ModuleNotFoundError", "install_packages"],
      ["asyncio.run", "import asyncio\nasync def main(): pass\nasyncio.run(main())", "RuntimeError", "await main()"],
      ["an unknown magic", "%no_such_magic", "UsageError", "not found"],
    ])("for %s", async (_name, code, name, sentence) => {
      const events = await run(kernel, code);
      expect(failure(events)).toMatchObject({ name });
      expect(traceback(events)).toContain(sentence);
    });

    test("but not for what is no shell line", async () => {
      for (const code of ["undefined_name", "x = = 1", "import json\njson.nothing"])
        expect(traceback(await run(kernel, code))).not.toContain("bash");
    });

    test("a line that installs has been done before", async () => {
      const events = await run(kernel, "if True:\n    %pip install -q six\n    !pip install six\nprint('on')");
      expect(text(events)).toBe(
        "pip install -q six: done before this cell began.\npip install six: done before this cell began.\non\n",
      );
    });
  });

  describe("input() with a client that answers", () => {
    test("gets what they type", async () => {
      const asked: unknown[] = [];
      const onInput = async (request: { secret: boolean }): Promise<string> => {
        asked.push(request);
        return request.secret ? "hidden" : "Ada";
      };
      const code = "import getpass\nname = input('Name? ')\nname, getpass.getpass('Secret? ')";
      expect(result(await run(kernel, code, { onInput }))).toBe("('Ada', 'hidden')");
      expect(asked).toEqual([
        { prompt: "Name? ", secret: false },
        { prompt: "Secret? ", secret: true },
      ]);
    });

    test("says so when they decline", async () => {
      const events = await run(kernel, "input('Name? ')", { onInput: async () => undefined });
      expect(failure(events)).toMatchObject({ name: "EOFError", message: expect.stringContaining("did not answer") });
    });
  });

  describe("exceptions", () => {
    test.each([
      ["sys.exit", "import sys; sys.exit(3)", "SystemExit"],
      ["exit", "exit()", "SystemExit"],
      ["a recursion bomb", "def dig(n): return dig(n + 1)\ndig(0)", "RecursionError"],
      [
        "a repr that calls itself",
        "class R:\n    def __repr__(self): return repr([self])\nrepr(R())",
        "RecursionError",
      ],
      [
        "an exception without words",
        "class Mute(Exception):\n    def __str__(self): raise OSError\nraise Mute",
        "Mute",
      ],
    ])("%s is survived", async (_name, code, name) => {
      const events = await run(kernel, code);
      expect(failure(events)).toMatchObject({ name });
      expect(text(events, "stderr")).not.toContain("To exit");
      expect(failure(events)?.traceback.length).toBeLessThan(401);
      expect(result(await run(kernel, "1"))).toBe("1");
    });

    test("show none of our frames and none of IPython's", async () => {
      const chained = "try:\n    1 / 0\nexcept Exception as e:\n    raise ValueError('outer') from e";
      expect(traceback(await run(kernel, chained))).toContain("direct cause");
      for (const code of [chained, "x = (", "%run missing.py", "await missing", "[].sort(key=1, x=2)"]) {
        const shown = traceback(await run(kernel, code));
        expect(shown).not.toMatch(/IPython|ipykernel|jupyter\/host|prelude/);
      }
    });

    test("in a form of a value leave that form out, and are told in anything else", async () => {
      const shown = await run(
        kernel,
        "class Half:\n    def _repr_html_(self): 1 / 0\n    __repr__ = lambda _: 'half'\nHalf()",
      );
      expect(shown.map(({ type }) => type)).toEqual(["result", "done"]);
      expect(result(shown)).toBe("half");
      const code = `
import threading
inside, go = threading.Event(), threading.Event()
class Slow:
    def __repr__(self): inside.set(); go.wait(); return 'slow'
thread = threading.Thread(target=display, args=(Slow(),)); thread.start()
inside.wait()
1 / 0`;
      expect(failure(await run(kernel, code))).toMatchObject({ name: "ZeroDivisionError" });
      await run(kernel, "go.set(); thread.join()");
    });

    test("in a cell of many calls are cut in the middle", async () => {
      const code = "def a(n): return b(n)\ndef b(n): return 1 / 0 if n == 0 else a(n - 1)\na(300)";
      const lines = failure(await run(kernel, code))?.traceback ?? [];
      expect(lines.length).toBeLessThan(401);
      expect(lines.join("\n")).toMatch(/52\d calls left out/);
      expect(lines.at(-1)).toBe("ZeroDivisionError: division by zero");
    });
  });

  describe("plots", () => {
    test("are shown once, at the end of the cell or where show() stands, before an exception", async () => {
      const open = await run(kernel, "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]);");
      expect(open.map(({ type }) => type)).toEqual(["display", "done"]);
      const [picture] = open;
      const png = decode(Buffer.from(String(picture?.type === "display" && picture.data["image/png"]), "base64"));
      expect(png.width).toBeGreaterThan(300);
      expect(new Set(png.data).size).toBeGreaterThan(10);
      const shown = await run(kernel, "plt.plot([1]); plt.show(); print('after')");
      expect(shown.map(({ type }) => type)).toEqual(["display", "stream", "done"]);
      const failed = await run(kernel, "plt.plot([1]); 1 / 0");
      expect(failed.map(({ type }) => type)).toEqual(["display", "error", "done"]);
    });

    test("are the same with the magic words of notebooks", async () => {
      const code =
        "%matplotlib inline\n%config InlineBackend.figure_format = 'retina'\nfig, ax = plt.subplots()\nax.plot([1])\nfig";
      const events = await run(kernel, code);
      expect(failure(events)).toBeUndefined();
      expect(events.map(({ type }) => type)).toEqual(["result", "done"]);
    });
  });

  test("help on a name is shown", async () => {
    const [shown] = await run(kernel, "len?");
    expect(shown).toMatchObject({
      type: "display",
      data: { "text/plain": expect.stringContaining("number of items") },
    });
  });

  test("no files of ours are in the workspace or in the environment", async () => {
    const { readdir } = await import("node:fs/promises");
    expect(await readdir(workspaceDir)).toEqual([]);
    expect(result(await run(kernel, "import os, sys; sorted(os.environ), sys.argv, sys.path[0]"))).not.toMatch(
      /IPYTHON|JPY|cellwright/i,
    );
  });
});
