import type { ExecutionEvent } from "../../../src/execution.ts";
import type { Kernel } from "../../../src/kernels/kernel.ts";
import { failure, result, run, text } from "../../contracts/kernel.ts";

/** What a cell is doing when it is interrupted. None of them ends by itself. */
const forever = {
  "a loop": "while True: pass",
  "a loop that calls": "def f(): return 1\nwhile True: f()",
  "a repr": "class Slow:\n    def __repr__(self):\n        while True: pass\nSlow()",
  "a rich form": "class Slow:\n    def _repr_html_(self):\n        while True: pass\nSlow()",
  "prints by the line": "while True: print('x')",
  "prints without a line": "while True: print('x', end='')",
  "a flood": "while True: print('x' * 1000)",
  displays: "while True: display({'text/plain': 'shown'}, raw=True)",
  "a sleep": "import time; time.sleep(100)",
  "short sleeps": "import time\nwhile True: time.sleep(0.001)",
  imports: "import sys, importlib\nwhile True:\n    sys.modules.pop('wave', None); importlib.import_module('wave')",
  "weakref callbacks":
    "import weakref\nclass Thing: pass\ndef called(_ref):\n    for _ in range(100): pass\nwhile True: ref = weakref.ref(Thing(), called)",
  "finalizers that handle exceptions":
    "class Thing:\n    def __del__(self):\n        try:\n            for _ in range(100): pass\n        except: pass\nwhile True: Thing()",
  finalizers: "class Thing:\n    def __del__(self):\n        for _ in range(100): pass\nwhile True: Thing()",
  "a regular expression": "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')",
  "an await": "import asyncio; await asyncio.sleep(100)",
  "short awaits": "import asyncio\nwhile True: await asyncio.sleep(0)",
  "a loop after an await": "import asyncio\nawait asyncio.sleep(0)\nwhile True: pass",
  "a loop in a task":
    "import asyncio\nasync def f():\n    while True: pass\nasync with asyncio.TaskGroup() as group: group.create_task(f())",
  "loops in two tasks":
    "import asyncio\nasync def f():\n    while True: pass\nawait asyncio.gather(asyncio.create_task(f()), asyncio.create_task(f()))",
  "a gather": "import asyncio\nasync def f():\n    while True: await asyncio.sleep(0)\nawait asyncio.gather(f(), f())",
  "asyncio.run": "import asyncio\nasync def main(): await asyncio.sleep(100)\nasyncio.run(main())",
  "a loop in asyncio.run": "import asyncio\nasync def main():\n    while True: pass\nasyncio.run(main())",
  "short awaits in asyncio.run":
    "import asyncio\nasync def main():\n    while True: await asyncio.sleep(0)\nasyncio.run(main())",
  exceptions: "while True:\n    try: 1 / 0\n    except ZeroDivisionError: pass",
};

/** Cells that end by themselves, for which an interrupt may come too late, or just in time. */
const short = {
  nothing: "pass",
  "a value": "list(range(1000))",
  "an exception": "1 / 0",
  "a short await": "import asyncio; await asyncio.sleep(0.001)",
  "a handler of its own": "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)",
  "a swallowed cancellation":
    "import asyncio\ntry:\n    await asyncio.sleep(0.02)\nexcept asyncio.CancelledError:\n    pass\nawait asyncio.sleep(0.01)",
};

export interface Tally {
  rounds: number;
  interrupted: number;
  ended: number;
  failures: string[];
}

/** A cell that has not ended by then hangs; its kernel is closed, and the next round gets another one. */
const HANG_MS = 30_000;

/** Rounds of a cell and its interrupt at a random moment, each followed by a check of the variables. */
export async function interruptRounds(
  start: () => Promise<Kernel>,
  rounds: number,
  random: () => number,
): Promise<Tally> {
  const tally: Tally = { rounds: 0, interrupted: 0, ended: 0, failures: [] };
  const cells = [...Object.entries(forever), ...Object.entries(short)];
  let kernel: Kernel | undefined;
  for (; tally.rounds < rounds; tally.rounds += 1) {
    kernel ??= await prepared(start);
    const [name, code] = cells[Math.floor(random() * cells.length)] as [string, string];
    // Some before the cell has begun, most soon after, some when it has been running for a while.
    const delayMs = [0, random() * 5, random() * 100][Math.floor(random() * 3)] ?? 0;
    try {
      const { outcome, wrong } = await oneRound(kernel, code, delayMs);
      tally[outcome] += 1;
      if (outcome === "ended" && name in forever) wrong.push("it was not interrupted");
      tally.failures.push(...wrong.map((what) => `${name}, after ${delayMs} ms: ${what}`));
    } catch (error) {
      tally.failures.push(`${name}, after ${delayMs} ms: ${error}`);
      await kernel.dispose();
      kernel = undefined;
    }
  }
  await kernel?.dispose();
  return tally;
}

async function prepared(start: () => Promise<Kernel>): Promise<Kernel> {
  const kernel = await start();
  await run(kernel, "kept = 'still here'");
  return kernel;
}

async function oneRound(kernel: Kernel, code: string, delayMs: number) {
  const hang = setTimeout(() => void kernel.dispose(), HANG_MS);
  try {
    const events = await runAndInterrupt(kernel, code, delayMs);
    const kept = result(await run(kernel, "kept"));
    const complaint = /.*(ignored|never retrieved).*/.exec(text(events, "stderr"))?.[0];
    const wrong = [...(kept === "'still here'" ? [] : [`then: ${kept}`]), ...(complaint ? [complaint] : [])];
    const outcome = failure(events)?.name === "KeyboardInterrupt" ? ("interrupted" as const) : ("ended" as const);
    return { outcome, wrong };
  } finally {
    clearTimeout(hang);
  }
}

/** Runs a cell that is interrupted after so many ms. */
export async function runAndInterrupt(kernel: Kernel, code: string, delayMs: number): Promise<ExecutionEvent[]> {
  const events: ExecutionEvent[] = [];
  const timer = setTimeout(() => void kernel.interrupt?.(), delayMs);
  try {
    for await (const event of kernel.execute(code)) {
      // A flood of output is not kept.
      if (event.type !== "stream" || events.length < 100) events.push(event);
    }
    return events;
  } finally {
    clearTimeout(timer);
  }
}

/** Reproducible random numbers (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
