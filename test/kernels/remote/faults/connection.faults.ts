import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import type { Kernel } from "../../../../src/kernels/kernel.ts";
import { failure, result, run, text } from "../../../contracts/kernel.ts";
import { describeWith } from "../../../support/requirements.ts";
import { rounds as roundsOf } from "../../../support/rounds.ts";
import type { TcpProxy } from "../../../support/tcp-proxy.ts";
import { jupyterKernels, kernelsBehindProxy } from "../remote-kernels.ts";

const rounds = roundsOf(50, 5);
const times = { pingMs: 300, unreachableMs: 60_000 };
const LINES = 60;
const all = Array.from({ length: LINES }, (_, i) => `${i}\n`).join("");
/** Takes about 0.3 s, and counts how often it ran. */
const cell = `import time\nruns[n] = runs.get(n, 0) + 1\nfor i in range(${LINES}):\n    print(i, flush=True)\n    time.sleep(0.005)\nn`;

describeWith("jupyterServer", "bad connections in mid-cell", (python) => {
  const kernels = kernelsBehindProxy(jupyterKernels(python), times);
  let proxy: TcpProxy;
  let kernel: Kernel;

  beforeAll(async () => {
    ({ kernel, proxy } = await kernels.start());
  });

  test.each([
    ["drop", () => proxy.drop()],
    ["reset", () => proxy.reset()],
    ["half-open", () => proxy.freeze()],
    [
      "delay",
      () => {
        proxy.weather = { delayMs: 100 };
        setTimeout(() => proxy.reset(), 150);
      },
    ],
    [
      "slow",
      () => {
        proxy.weather = { bytesPerSecond: 200_000 };
        setTimeout(() => proxy.freeze(), 150);
      },
    ],
  ])(
    `%s, ${rounds} times: all is shown, once, and each cell runs once`,
    { timeout: rounds * 60_000 },
    async (_, act) => {
      await run(kernel, "runs = {}");
      for (let round = 0; round < rounds; round += 1) {
        const running = run(kernel, cell, { variables: { n: round } });
        await pause((round / rounds) * 350);
        act();
        const events = await running;
        proxy.weather = {};
        expect(failure(events)).toBeUndefined();
        expect(text(events)).toBe(all);
        expect(result(events)).toBe(String(round));
        expect(events.filter(({ type }) => type === "done")).toHaveLength(1);
      }
      expect(result(await run(kernel, `len(runs), set(runs.values())`))).toBe(`(${rounds}, {1})`);
    },
  );

  /** If the server loses the streams of such a connection, the next one is silent. */
  test(`one that breaks while the server joins it to the kernel, ${rounds} times: the next cell is shown`, {
    timeout: rounds * 60_000,
  }, async () => {
    for (let round = 0; round < rounds; round += 1) {
      const joined = proxy.connection();
      proxy.reset();
      await joined;
      await pause((round % 20) * 2);
      const again = proxy.connection();
      proxy.reset();
      await again;
      expect(text(await run(kernel, `print(${round})`))).toBe(`${round}\n`);
    }
  });
});
