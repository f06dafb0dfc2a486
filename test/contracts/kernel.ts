import { afterEach, describe, expect, type TestContext, test as testCase } from "vitest";
import type { ExecutionEvent } from "../../src/execution.ts";
import type { ExecuteOptions, Kernel, Variable } from "../../src/kernels/kernel.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";

export interface KernelContract {
  name: string;
  /** A fresh kernel of a provider, in a separate session. */
  start(): Promise<{ kernel: Kernel; workspace: Workspace }>;
  /** Its variables can be inspected while Python code runs, not only between cells. */
  looksWhileBusy?: boolean;
  /** Tests that this backend cannot pass, by name, and why. */
  except?: Record<string, string>;
}

/** All events of one cell. */
export async function run(kernel: Kernel, code: string, options?: ExecuteOptions): Promise<ExecutionEvent[]> {
  const events: ExecutionEvent[] = [];
  for await (const event of kernel.execute(code, options)) events.push(event);
  return events;
}

/** What the cell wrote to a stream, in however many pieces. */
export function text(events: ExecutionEvent[], name: "stdout" | "stderr" = "stdout"): string {
  return events.map((event) => (event.type === "stream" && event.name === name ? event.text : "")).join("");
}

/** The plain form of the cell's value. */
export function result(events: ExecutionEvent[]): unknown {
  return events.find((event) => event.type === "result")?.data["text/plain"];
}

export function failure(events: ExecutionEvent[]) {
  return events.find((event) => event.type === "error");
}

/** Runs a cell and calls `act` once it has printed `ready`. */
export async function runUntilReady(
  kernel: Kernel,
  code: string,
  act: () => unknown,
  options: ExecuteOptions = {},
): Promise<ExecutionEvent[]> {
  const events: ExecutionEvent[] = [];
  let acted = false;
  for await (const event of kernel.execute(code, options)) {
    events.push(event);
    if (!acted && text(events).includes("ready")) {
      acted = true;
      await act();
    }
  }
  return events;
}

/** The suite that Python kernels of every backend pass: `test/kernels/contract` has one file for each. */
export function testKernel(contract: KernelContract): void {
  const shared = sharedKernel(contract.start);
  const test = testsExcept(contract.except ?? {});

  describe(`${contract.name}: the kernel contract`, () => {
    test("events come in the order things happened, and done is last and once", async () => {
      const { kernel } = await shared();
      const events = await run(
        kernel,
        "import sys\nprint('one')\nprint('two', file=sys.stderr)\ndisplay('three')\nprint('four', end='')\n5",
      );
      expect(events).toMatchObject([
        { type: "stream", name: "stdout", text: "one\n" },
        { type: "stream", name: "stderr", text: "two\n" },
        { type: "display", data: { "text/plain": "'three'" } },
        { type: "stream", name: "stdout", text: "four" },
        { type: "result", data: { "text/plain": "5" } },
        { type: "done", status: "ok" },
      ]);
    });

    test("variables stay from cell to cell and the count goes up by one", async () => {
      const { kernel } = await shared();
      const first = (await run(kernel, "kept = 41")).at(-1);
      const second = await run(kernel, "kept + 1");
      expect(result(second)).toBe("42");
      const count = (event?: ExecutionEvent) => (event?.type === "done" ? event.executionCount : undefined);
      expect(count(second.at(-1))).toBe(Number(count(first)) + 1);
    });

    test("an exception is an event, with the cell's own lines and none of ours", async () => {
      const { kernel } = await shared();
      const events = await run(kernel, "def divide():\n    return 1 / 0\ndivide()");
      expect(failure(events)).toMatchObject({ name: "ZeroDivisionError", message: "division by zero" });
      const traceback = failure(events)?.traceback.join("\n") ?? "";
      expect(traceback).toContain("return 1 / 0");
      expect(traceback.match(/File /g)).toHaveLength(2);
      expect(events.at(-1)).toMatchObject({ type: "done", status: "error" });
    });

    test("a syntax error shows where it is", async () => {
      const { kernel } = await shared();
      const events = await run(kernel, "good = 1\nbad = = 2");
      expect(failure(events)).toMatchObject({ name: "SyntaxError" });
      expect(failure(events)?.traceback.join("\n")).toContain("bad = = 2");
    });

    test("a last expression is the result, a semicolon hides it, `_` remembers it", async () => {
      const { kernel } = await shared();
      expect(result(await run(kernel, "6 * 7"))).toBe("42");
      expect(result(await run(kernel, "_"))).toBe("42");
      expect(result(await run(kernel, "6 * 7;"))).toBeUndefined();
      expect(result(await run(kernel, "None"))).toBeUndefined();
    });

    test("a silent cell leaves no count and no `_`", async () => {
      const { kernel } = await shared();
      await run(kernel, "'before'");
      const silent = await run(kernel, "'silent'", { silent: true });
      expect(silent.at(-1)).toMatchObject({ type: "done", executionCount: null });
      expect(result(await run(kernel, "_"))).toBe("'before'");
    });

    test("top-level await works", async () => {
      const { kernel } = await shared();
      expect(
        result(await run(kernel, "import asyncio\nawait asyncio.sleep(0.01)\nawait asyncio.sleep(0, 'slept')")),
      ).toBe("'slept'");
    });

    test("variables arrive beside the code, as values and as bytes", async () => {
      const { kernel } = await shared();
      const variables = { word: "a'b\"\\\n", list: [1, 2.5, null, { deep: true }], data: new Uint8Array([0, 255]) };
      expect(result(await run(kernel, "word, list, data", { variables }))).toBe(
        `('a\\'b"\\\\\\n', [1, 2.5, None, {'deep': True}], b'\\x00\\xff')`,
      );
    });

    test("displays can be updated and cleared", async () => {
      const { kernel } = await shared();
      const code =
        "handle = display('a', display_id='spot')\nhandle.update('b')\nclear_output(wait=True)\ndisplay('c')";
      expect(await run(kernel, code)).toMatchObject([
        { type: "display", data: { "text/plain": "'a'" }, displayId: "spot" },
        { type: "update", data: { "text/plain": "'b'" }, displayId: "spot" },
        { type: "clear", wait: true },
        { type: "display", data: { "text/plain": "'c'" } },
        { type: "done" },
      ]);
    });

    test("objects are shown in every form they offer", async () => {
      const { kernel } = await shared();
      const code = `
class Rich:
    def __repr__(self): return "plain"
    def _repr_html_(self): return "<b>html</b>"
    def _repr_png_(self): return b"\\x89PNG"
    def _repr_svg_(self): raise ValueError("no svg today")
Rich()`;
      const events = await run(kernel, code);
      expect(events[0]).toEqual({
        type: "result",
        data: { "text/plain": "plain", "text/html": "<b>html</b>", "image/png": "iVBORw==" },
      });
    });

    test("a failing repr does not fail the cell", async () => {
      const { kernel } = await shared();
      const events = await run(kernel, "class Bad:\n    def __repr__(self): raise ValueError('nope')\nBad()");
      expect(String(result(events))).toContain("nope");
      expect(events.at(-1)).toMatchObject({ status: "ok" });
    });

    test("the working directory is the workspace", async () => {
      const { kernel, workspace } = await shared();
      await run(kernel, "with open('from-python.txt', 'w') as file: file.write('hello')");
      const { bytes } = await workspace.read("from-python.txt", { maxBytes: 100 });
      expect(Buffer.from(bytes).toString()).toBe("hello");
      await workspace.write("helper_module.py", Buffer.from("answer = 42"));
      expect(result(await run(kernel, "import helper_module; helper_module.answer"))).toBe("42");
    });

    test("10 MB of output arrive whole", async () => {
      const { kernel } = await shared();
      const events = await run(kernel, "for i in range(10_000): print('%06d' % i + 'x' * 1018)");
      const output = text(events);
      expect(output.length).toBe(10_250_000);
      expect(output.startsWith("000000x")).toBe(true);
      expect(output.slice(-1025, -1019)).toBe("009999");
    });

    test("a character split between two writes survives", async () => {
      const { kernel } = await shared();
      const code =
        "import os, sys\nprint('a', end='', flush=True)\ndata = '🙂é'.encode()\nfor i in range(len(data)): os.write(1, data[i:i+1])\n" +
        "sys.stdout.buffer.write(data[:3]); sys.stdout.buffer.write(data[3:]); print('z')";
      expect(text(await run(kernel, code))).toBe("a🙂é🙂éz\n");
    });

    test("what ends a line elsewhere is text like any other, in output and in code", async () => {
      const { kernel } = await shared();
      const ends = "a\u2028b\u2029c\u0085d\u000be\u001cf";
      expect(text(await run(kernel, `print(${JSON.stringify(ends)})`))).toBe(`${ends}\n`);
      expect((await run(kernel, "x = 1\u2028y")).at(-1)).toMatchObject({ type: "done", status: "error" });
    });

    test("lone surrogates and NUL come through", async () => {
      const { kernel } = await shared();
      const events = await run(kernel, "print('a\\ud800b\\0c')\n'\\udfff'");
      expect(text(events)).toBe("a\ud800b\0c\n");
      expect(result(events)).toBe("'\\udfff'");
    });

    // A long source delays the start of the cell by about 0.3 s, more than the longest delay here.
    for (const [what, lines] of [
      ["the cell", 1],
      ["a long cell", 5_000],
    ] as const) {
      test(`an interrupt is heard however early in ${what} it comes`, async ({ skip }) => {
        const { kernel } = await shared();
        if (!kernel.interrupt) return skip(NO_INTERRUPT);
        await run(kernel, "kept = 41");
        for (let delayMs = 0; delayMs < 80; delayMs += 8) {
          const running = run(kernel, `${"x = 1\n".repeat(lines)}while True: pass`);
          await new Promise((resolve) => setTimeout(resolve, delayMs));
          await kernel.interrupt();
          expect(failure(await running)).toMatchObject({ name: "KeyboardInterrupt" });
          expect(result(await run(kernel, "kept + 1"))).toBe("42");
        }
      });
    }

    test("an interrupt ends the cell and keeps variables", async ({ skip }) => {
      const { kernel } = await shared();
      if (!kernel.interrupt) return skip(NO_INTERRUPT);
      await run(kernel, "survivor = 'here'");
      const events = await runUntilReady(kernel, "print('ready')\nwhile True: pass", () => kernel.interrupt?.());
      expect(failure(events)).toMatchObject({ name: "KeyboardInterrupt" });
      expect(result(await run(kernel, "survivor"))).toBe("'here'");
    });

    test("an interrupt that Python drops, because a finalizer runs, ends the cell nevertheless", async ({ skip }) => {
      const { kernel } = await shared();
      if (!kernel.interrupt) return skip(NO_INTERRUPT);
      const finalizers = {
        "a weakref callback": "import weakref\nref = weakref.ref(thing, lambda _: compute())",
        __del__: "Thing.__del__ = lambda _: compute()",
      };
      for (const finalizer of Object.values(finalizers)) {
        const code = `
class Thing: pass
def compute():
    print('ready')
    while True: pass
thing = Thing()
${finalizer}
del thing
while True: pass`;
        const events = await runUntilReady(kernel, code, () => kernel.interrupt?.());
        expect(failure(events)).toMatchObject({ name: "KeyboardInterrupt" });
      }
    });

    test("other exceptions of finalizers are printed", async () => {
      const { kernel } = await shared();
      const code = "class Thing:\n    def __del__(self): raise KeyboardInterrupt('my own')\nthing = Thing()\ndel thing";
      expect(text(await run(kernel, code), "stderr")).toContain("KeyboardInterrupt: my own");
    });

    test("output of a task left behind is told apart from the next cell's", async () => {
      const { kernel } = await shared();
      const late: ExecutionEvent[] = [];
      const code =
        "import asyncio\nasync def later():\n    await asyncio.sleep(0.05)\n    print('late')\n" +
        "left_behind = asyncio.create_task(later())\nprint('now')";
      const first = await run(kernel, code, { onLate: (event) => late.push(event) });
      const second = await run(kernel, "print('second')\nawait left_behind\nprint('end')");
      expect(text(first)).toBe("now\n");
      expect(text(second)).toBe("second\nend\n");
      expect(text(late)).toBe("late\n");
    });

    test("variables can be looked at without running user code", async ({ skip }) => {
      const { kernel } = await shared();
      if (!kernel.inspect) return skip(NO_INSPECTION);
      await run(
        kernel,
        "looks = 0\nclass Shy:\n    def __repr__(self):\n        global looks; looks += 1; return 'seen'\n" +
          "    __len__ = __str__ = __repr__\n    @property\n    def __dict__(self): return self.__repr__()\n" +
          "    @property\n    def __class__(self): return self.__repr__()\n" +
          "shy = Shy()\nrow = {'a': [1, 2], 'b': shy}",
      );
      const all = await kernel.inspect({ limit: 1000 });
      const find = (name: string): Variable | undefined => all.find((variable) => variable.name === name);
      expect(find("row")).toMatchObject({ type: "dict", length: 2 });
      expect(find("shy")).toMatchObject({ type: "Shy" });
      expect(await kernel.inspect({ name: "row", maxChars: 500 })).toMatchObject([{ members: ["a", "b"] }]);
      expect(await kernel.inspect({ name: "missing", maxChars: 500 })).toEqual([]);
      expect(result(await run(kernel, "looks"))).toBe("0");
    });

    test("looking at variables while a cell computes shows them or says that the kernel is busy", async ({ skip }) => {
      const { kernel } = await shared();
      if (!kernel.interrupt) return skip(NO_INTERRUPT);
      if (!kernel.inspect) return skip(NO_INSPECTION);
      let seen: unknown;
      await runUntilReady(kernel, "busy = 7\nprint('ready')\nwhile True: pass", async () => {
        seen = await kernel.inspect?.({ name: "busy", maxChars: 10 }).catch((error) => error);
        await kernel.interrupt?.();
      });
      expect(seen).toMatchObject(contract.looksWhileBusy ? [{ summary: "7" }] : { code: "kernel_busy" });
    });
  });

  describe(`${contract.name}: the end of a kernel`, () => {
    test("two kernels do not mix", async () => {
      const [one, two] = await Promise.all([contract.start(), contract.start()]);
      const [first, second] = await Promise.all([
        run(one.kernel, "mine = 1\nfor i in range(2000): print('one')"),
        run(two.kernel, "for i in range(2000): print('two')"),
      ]);
      expect(text(first)).toBe("one\n".repeat(2000));
      expect(text(second)).toBe("two\n".repeat(2000));
      expect(failure(await run(two.kernel, "mine"))).toMatchObject({ name: "NameError" });
      await Promise.all([one.kernel.dispose(), two.kernel.dispose()]);
    });

    test("disposing in mid-cell ends the cell with kernel_died, keeping what it printed", async () => {
      const { kernel } = await contract.start();
      const events: ExecutionEvent[] = [];
      const running = (async () => {
        for await (const event of kernel.execute("print('ready')\nwhile True: pass")) {
          events.push(event);
          void kernel.dispose();
        }
      })();
      await expect(running).rejects.toMatchObject({ code: "kernel_died" });
      expect(text(events)).toBe("ready\n");
      await kernel.dispose();
      await expect(run(kernel, "1")).rejects.toMatchObject({ code: "kernel_died" });
      expect(await kernel.closed).toHaveProperty("reason");
    });

    test("the death of the interpreter is seen in mid-cell", async () => {
      const { kernel } = await contract.start();
      await expect(run(kernel, "import os; os._exit(3)")).rejects.toMatchObject({ code: "kernel_died" });
      await kernel.closed;
      await kernel.dispose();
    });
  });
}

const NO_INTERRUPT = "kernels of this backend can only be disposed";
const NO_INSPECTION = "variables of this backend cannot be looked at";

/** `test`, but those that are excepted are skipped with the reason in their title. */
function testsExcept(except: Record<string, string>) {
  const unknown = new Set(Object.keys(except));
  if (unknown.size > 0) testCase("exceptions are tests of the contract", () => expect([...unknown]).toEqual([]));
  return (name: string, body: (context: TestContext) => Promise<void>): void => {
    unknown.delete(name);
    const reason = except[name];
    if (reason === undefined) testCase(name, body);
    else testCase.skip(`${name} (${reason})`, () => {});
  };
}

/** One kernel for all tests that do not change it; after a failure it is replaced. */
export function sharedKernel<Started>(start: () => Promise<Started>): () => Promise<Started> {
  let started: Promise<Started> | undefined;
  afterEach(({ task }) => {
    if (task.result?.state === "fail") started = undefined;
  });
  return () => {
    started ??= start();
    return started;
  };
}
