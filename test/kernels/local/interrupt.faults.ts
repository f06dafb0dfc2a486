import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { afterAll, expect, test } from "vitest";
import { failure, run, runUntilReady } from "../../contracts/kernel.ts";
import { testPython } from "../../support/pythons.ts";
import { describeWithPythons } from "../../support/requirements.ts";
import { rounds } from "../../support/rounds.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

const ROUNDS = rounds(200, 10);

// On a machine with all cores busy, signals arrive at other moments.
const busy = Array.from({ length: availableParallelism() }, () => new Worker("while (true);", { eval: true }));
afterAll(() => Promise.all(busy.map((worker) => worker.terminate())));

const interruptible = {
  "a sleep": "print('ready', flush=True)\ntime.sleep(100)",
  "a lock that is taken": "print('ready', flush=True)\nlock = threading.Lock(); lock.acquire(); lock.acquire()",
  "an await": "print('ready', flush=True)\nawait asyncio.sleep(100)",
  "a flood of lines": "while True: print('ready', flush=True)",
  "a flood of displays": "print('ready', flush=True)\nwhile True: display('x' * 100)",
};

describeWithPythons("an interrupt on a busy machine", async (python) => {
  const kernels = providerKernels(builtFrom({ kernel: "local", env: testPython(python), jail: "none" }));
  const { kernel } = await kernels.start();
  await run(kernel, "import asyncio, threading, time");

  test.each(Object.entries(interruptible))(
    "ends %s each time, and the next cell fails aloud",
    { timeout: ROUNDS * 10_000 },
    async (_what, code) => {
      for (let round = 0; round < ROUNDS; round += 1) {
        const events = await runUntilReady(kernel, code, () => kernel.interrupt?.());
        expect(failure(events), `round ${round}`).toMatchObject({ name: "KeyboardInterrupt" });
        expect(failure(await run(kernel, `raise ValueError(${round})`))).toMatchObject({ message: `${round}` });
      }
    },
  );
});
