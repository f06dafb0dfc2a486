import { expect, test } from "vitest";
import type { ExecutionEvent } from "../../../src/execution.ts";
import { failure, result, run, runUntilReady, text } from "../../contracts/kernel.ts";
import { requirement } from "../../support/requirements.ts";
import { until } from "../../support/until.ts";
import { interruptRounds, runAndInterrupt, seeded } from "./interrupt-rounds.ts";
import { wasmKernels } from "./wasm-kernels.ts";

const kernels = wasmKernels();
const { kernel } = await kernels.start();

const interruptible = {
  "a loop": "while True: pass",
  "a sleep": "import time; time.sleep(100)",
  "a regular expression": "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')",
  "an await": "import asyncio; await asyncio.sleep(100)",
  "asyncio.run": "import asyncio\nasync def main(): await asyncio.sleep(100)\nasyncio.run(main())",
  "a loop inside asyncio.run": "import asyncio\nasync def main():\n    while True: pass\nasyncio.run(main())",
  "a flood": "while True: print('x' * 1000)",
  "a repr": "class Slow:\n    def __repr__(self):\n        while True: pass\nSlow()",
};

test.each(Object.entries(interruptible))("an interrupt stops %s and keeps variables", async (_name, code) => {
  await run(kernel, "kept = 'still here'");
  const ready = `print('ready', flush=True)\n${code}`;
  const events = await runUntilReady(kernel, ready, () => kernel.interrupt?.());
  expect(failure(events)).toMatchObject({ name: "KeyboardInterrupt" });
  expect(result(await run(kernel, "kept"))).toBe("'still here'");
});

/** Blocks the worker's event loop while Python waits in it. */
const BUSY_LOOP = "setTimeout(() => { const end = Date.now() + 1000; while (Date.now() < end); }, 0)";

test.each([
  ["at once", "pass"],
  ["late, because its event loop was busy", `run_js(${JSON.stringify(BUSY_LOOP)})`],
])("a cell that swallows its cancellation is not broken by the interrupt, heard %s", async (_when, then) => {
  const code = `
import asyncio
from pyodide.code import run_js
def while_it_waits():
    print('ready', flush=True)
    ${then}
asyncio.get_running_loop().call_soon(while_it_waits)
try:
    await asyncio.sleep(100)
except asyncio.CancelledError:
    print('swallowed')
await asyncio.sleep(0.3)
'went on'`;
  const events = await runUntilReady(kernel, code, () => kernel.interrupt?.());
  expect(text(events)).toBe("ready\nswallowed\n");
  expect(result(events)).toBe("'went on'");
});

test("a cell that awaits is interrupted at any moment, while a task left behind computes most of the time", async () => {
  const hog = "async def hog():\n    while True:\n        for _ in range(10_000): pass\n        await asyncio.sleep(0)";
  for (let round = 0; round < 20; round += 1) {
    await run(kernel, `import asyncio\n${hog}\nhogging = asyncio.create_task(hog())`);
    const events = await runAndInterrupt(kernel, "await asyncio.sleep(100)", round / 4);
    expect(failure(events)).toMatchObject({ name: "KeyboardInterrupt" });
  }
});

test("a cell's own handler of SIGINT gets its interrupts, and only its", async () => {
  const own = `
import signal, time
calls = []
before = signal.signal(signal.SIGINT, lambda number, frame: calls.append((number, frame.f_code.co_name)))
print('ready')
while not calls: time.sleep(0.01)
(calls[0][0] == signal.SIGINT, signal.getsignal(signal.SIGINT) is before)`;
  expect(result(await runUntilReady(kernel, own, () => kernel.interrupt?.()))).toBe("(True, False)");
  const next = await runUntilReady(kernel, "print('ready')\nwhile True: pass", () => kernel.interrupt?.());
  expect(failure(next)).toMatchObject({ name: "KeyboardInterrupt" });
  expect(result(await run(kernel, "len(calls), signal.getsignal(signal.SIGINT) is before"))).toBe("(1, True)");

  const raising = `
def stop(*_): raise TimeoutError('my own')
signal.signal(signal.SIGINT, stop)
print('ready')
while True: pass`;
  const events = await runUntilReady(kernel, raising, () => kernel.interrupt?.());
  expect(failure(events)).toMatchObject({ name: "TimeoutError", message: "my own" });
});

test.each([
  ["the first cell", ""],
  ["a cell after one that set the default action", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)"],
])("an interrupt that arrives before %s begins does not end the kernel", async (_name, code) => {
  for (let round = 0; round < 3; round += 1) {
    const other = (await kernels.start()).kernel;
    if (code) await run(other, code);
    // So long that the interrupt arrives before the cell is compiled.
    const long = run(other, `text = '${"x".repeat(2 ** 22)}'\nwhile True: pass`);
    await other.interrupt?.();
    expect(failure(await long)).toMatchObject({ name: "KeyboardInterrupt" });
    expect(result(await run(other, "1 + 1"))).toBe("2");
    await other.dispose();
  }
});

test("a cell that could not begin, because a task left behind never pauses, can be interrupted", async () => {
  const late: ExecutionEvent[] = [];
  const hog = "async def hog():\n    print('begun', flush=True)\n    while True: pass";
  await run(kernel, `import asyncio\n${hog}\nhogging = asyncio.create_task(hog())`, {
    onLate: (event) => late.push(event),
  });
  await until("the task left behind", () => text(late) === "begun\n");
  const events: ExecutionEvent[] = [];
  const running = (async () => {
    for await (const event of kernel.execute("reached = True")) events.push(event);
  })();
  await kernel.interrupt?.();
  await running;
  expect(failure(events)).toMatchObject({ name: "KeyboardInterrupt" });
  expect(result(await run(kernel, "'reached' in globals(), hogging.done()"))).toBe("(False, True)");
});

test("a callback that computes for ever does not keep the interrupt from what the cell awaits", async () => {
  await run(kernel, "kept = 'still here'");
  const code = `import asyncio
future = asyncio.get_running_loop().create_future()
def block(_future):
    while True: pass
# Called before the cell hears of its cancellation.
future.add_done_callback(block)
print('ready')
await future`;
  const events = await runUntilReady(kernel, code, () => kernel.interrupt?.());
  expect(failure(events)).toMatchObject({ name: "KeyboardInterrupt" });
  expect(result(await run(kernel, "kept"))).toBe("'still here'");
});

test("interrupts at any moment end the cell and keep the kernel", async () => {
  const tally = await interruptRounds(async () => (await kernels.start()).kernel, 10, seeded(12));
  expect(tally).toMatchObject({ rounds: 10, failures: [] });
});

test("asyncio.run works inside a cell, and raises what it raised", async () => {
  const events = await run(
    kernel,
    "import asyncio\nasync def main():\n    await asyncio.sleep(0.01)\n    return 7\nasyncio.run(main())",
  );
  expect(result(events)).toBe("7");
  const failing = await run(kernel, "async def main():\n    raise ValueError('from main')\nasyncio.run(main())");
  expect(failing).toMatchObject([{ type: "error", name: "ValueError", message: "from main" }, { type: "done" }]);
});

test.each([
  ["sys.exit", "import sys; sys.exit(3)", "SystemExit"],
  ["exit", "exit()", "SystemExit"],
  ["a recursion bomb", "def dig(n): return dig(n + 1)\ndig(0)", "RecursionError"],
  ["a repr that calls itself", "class R:\n    def __repr__(self): return repr([self])\nrepr(R())", "RecursionError"],
  [
    "a task that exits",
    "import asyncio\nasync def leave(): raise SystemExit(1)\nawait asyncio.create_task(leave())",
    "SystemExit",
  ],
])("%s is survived", async (_name, code, name) => {
  await run(kernel, "kept = 'still here'");
  expect(failure(await run(kernel, code))).toMatchObject({ name });
  expect(result(await run(kernel, "kept"))).toBe("'still here'");
});

test.each([
  ["input()", "input('name? ')", "EOFError", "pass it in with the call's variables"],
  ["getpass", "import getpass; getpass.getpass()", "EOFError", "pass it in with the call's variables"],
  ["stdin", "import sys; sys.stdin.readline()", "EOFError", "pass it in with the call's variables"],
  ["subprocess", "import subprocess; subprocess.run(['ls'])", "OSError", "Do it in Python itself"],
  ["os.system", "import os; os.system('ls')", "OSError", "Do it in Python itself"],
  ["threads", "import threading; threading.Thread(target=print).start()", "RuntimeError", "use asyncio"],
  [
    "a thread pool",
    "from concurrent.futures import ThreadPoolExecutor as P; P().submit(print)",
    "RuntimeError",
    "use asyncio",
  ],
  [
    "multiprocessing",
    "import multiprocessing; multiprocessing.Process().start()",
    "ModuleNotFoundError",
    "use asyncio",
  ],
  ["sockets", "import socket; socket.create_connection(('127.0.0.1', 80))", "OSError", "has no network"],
  ["urllib", "import urllib.request; urllib.request.urlopen('http://x.example')", "URLError", "has no network"],
  ["a shell line", "!ls", "SyntaxError", "has no shell"],
  ["a missing package", "import numpy", "ModuleNotFoundError", "is not installed in this session"],
])("%s is refused with a sentence that says what to do", async (_name, code, name, sentence) => {
  const error = failure(await run(kernel, code));
  expect(error).toMatchObject({ name });
  expect(error?.traceback.join("\n")).toContain(sentence);
});

test("chained exceptions and exception groups show none of our frames", async () => {
  const chained = await run(kernel, "try:\n    1 / 0\nexcept Exception as e:\n    raise ValueError('outer') from e");
  expect(failure(chained)?.traceback.join("\n")).toContain("direct cause");
  const grouped = await run(
    kernel,
    "async def f(): raise KeyError('k')\nimport asyncio\nasync with asyncio.TaskGroup() as g: g.create_task(f())",
  );
  expect(failure(grouped)?.traceback.join("\n")).toContain("KeyError: 'k'");
  for (const events of [chained, grouped]) expect(failure(events)?.traceback.join("\n")).not.toContain("cellwright");
});

test.each(["a\u2028b", "a\fb", "a\u0085b"])("%j in a cell does not shift its lines", async (odd) => {
  const error = failure(await run(kernel, `odd = '${odd}'\nfirst = 1\nfirst / 0\nlast = 2`));
  expect(error?.traceback.join("\n")).toContain("first / 0");
  expect(result(await run(kernel, `odd = '${odd}'\nfirst\n42;`))).toBeUndefined();
});

test("`from __future__` holds for later cells, and broken __str__ does not break the report", async () => {
  await run(kernel, "from __future__ import annotations");
  expect(result(await run(kernel, "def f(x: nowhere): pass\nf.__annotations__"))).toBe("{'x': 'nowhere'}");
  const events = await run(kernel, "class Mute(Exception):\n    def __str__(self): raise OSError\nraise Mute()");
  expect(failure(events)).toMatchObject({ name: "Mute" });
});

test("operations that Deno refuses are Python exceptions", async () => {
  expect(failure(await run(kernel, "import os; os.symlink('a', 'b')"))).toMatchObject({ name: "PermissionError" });
  expect(failure(await run(kernel, "open('/etc/passwd')"))).toMatchObject({ name: "FileNotFoundError" });
  expect(failure(await run(kernel, "open('/site/x.py', 'w')"))).toMatchObject({ name: "PermissionError" });
  expect(result(await run(kernel, "import shutil, os; shutil.disk_usage('.').free > 0 and os.getuid() >= 0"))).toBe(
    "True",
  );
  expect(result(await run(kernel, "open('mode.txt', 'w').close(); oct(os.stat('mode.txt').st_mode)"))).toBe(
    "'0o100644'",
  );
});

test("nothing of the host shows in the environment", async () => {
  const shown = await run(kernel, "import os, sys; print(dict(os.environ), sys.path, sys.argv, os.getcwd())");
  expect(text(shown)).not.toContain(import.meta.dirname.split("/test/")[0]);
  expect(text(shown)).toContain("/workspace");
});

test("two kernels draw different random numbers", async () => {
  const other = await kernels.start();
  const draw = "import random, uuid; (random.random(), uuid.uuid4())";
  expect(result(await run(kernel, draw))).not.toBe(result(await run(other.kernel, draw)));
  await other.kernel.dispose();
});

test("the walls that hold are named", () => {
  const { ok } = requirement("isolation");
  const tier = expect.stringMatching(/^(namespaces|Landlock)$/);
  expect(kernel.info.layers).toEqual(["Deno permissions", ...(ok ? [tier, "system call filter"] : [])]);
});
