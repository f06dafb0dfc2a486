import { spawnSync } from "node:child_process";
import { basename } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import type { ExecutionEvent } from "../../../../src/execution.ts";
import type { Kernel } from "../../../../src/kernels/kernel.ts";
import { failure, result, run, text } from "../../../contracts/kernel.ts";
import { describeWith } from "../../../support/requirements.ts";
import type { TcpProxy } from "../../../support/tcp-proxy.ts";
import { until } from "../../../support/until.ts";
import { jupyterKernels, kernelsBehindProxy } from "../remote-kernels.ts";

/** Resolves when a new process has this word on its command line. */
async function newProcess(word: string, known: number): Promise<void> {
  await until(`a process with ${word}`, () => {
    const { stdout } = spawnSync("pgrep", ["-f", word], { encoding: "utf8" });
    return stdout.split("\n").some((pid) => pid && Number(pid) !== known);
  });
}

/** Debian's server gives a dead connection five seconds before it takes the next one of the same client. */
const times = { pingMs: 300, unreachableMs: 60_000 };

for (const name of ["jupyterServer", "debianJupyterServer"] as const) {
  describeWith(name, `${name}: a connection that breaks in mid-cell`, (python) => {
    const remote = jupyterKernels(python);
    const kernels = kernelsBehindProxy(remote, times);
    const impatient = kernelsBehindProxy(remote, { ...times, unreachableMs: 2_000 });
    const others = kernelsBehindProxy(remote, times);
    let proxy: TcpProxy;
    let kernel: Kernel;

    beforeAll(async () => {
      ({ kernel, proxy } = await kernels.start());
    });

    /** Counts to a hundred within a second, and breaks connections meanwhile. */
    async function count(act: () => void, { at = 20, last = "'end'" } = {}): Promise<ExecutionEvent[]> {
      const code =
        "import time\nruns = globals().get('runs', 0) + 1\n" +
        `for i in range(100):\n    print(i, flush=True)\n    time.sleep(0.01)\n${last}`;
      const events: ExecutionEvent[] = [];
      let acted = false;
      for await (const event of kernel.execute(code)) {
        events.push(event);
        if (!acted && text(events).includes(`${at}\n`)) {
          acted = true;
          act();
        }
      }
      return events;
    }
    const everything = Array.from({ length: 100 }, (_, i) => `${i}\n`).join("");

    test.each([
      ["is closed", () => proxy.drop()],
      ["is reset", () => proxy.reset()],
      ["stays open but dead", () => proxy.freeze()],
    ])("that %s loses nothing and repeats nothing", async (_name, act) => {
      await run(kernel, "runs = 0");
      const events = await count(act);
      expect(text(events)).toBe(everything);
      expect(result(events)).toBe("'end'");
      expect(events.filter(({ type }) => type === "done")).toHaveLength(1);
      expect(result(await run(kernel, "runs"))).toBe("1");
    });

    test("loses nothing when the kernel cannot answer for a while, and is over before it can", async () => {
      const holdsTheLock = "import ctypes; ctypes.PyDLL(None).sleep(7)";
      const events = await count(() => proxy.freeze(), { at: 80, last: `${holdsTheLock}\nprint('after')\n'end'` });
      expect(text(events)).toBe(`${everything}after\n`);
      expect(result(events)).toBe("'end'");
    });

    test("before the request has arrived: it runs once", async () => {
      await run(kernel, "runs = 0");
      for (let round = 0; round < 3; round += 1) {
        proxy.freeze();
        expect(failure(await run(kernel, "runs += 1"))).toBeUndefined();
      }
      expect(result(await run(kernel, "runs"))).toBe("3");
    });

    test("that breaks again and again", async () => {
      await run(kernel, "runs = 0");
      // With a limit: on a busy machine no connection might live long enough to be useful.
      const breaking = (async () => {
        for (let times = 0; times < 10; times += 1) {
          await pause(150);
          proxy.reset();
        }
      })();
      const events = await count(() => {});
      await breaking;
      expect(text(events)).toBe(everything);
      expect(result(await run(kernel, "runs"))).toBe("1");
    });

    test("does not keep an interrupt from being heard", async () => {
      const running = run(kernel, "while True: pass");
      proxy.freeze();
      await kernel.interrupt?.();
      expect(failure(await running)).toMatchObject({ name: "KeyboardInterrupt" });
    });

    test("while the user types: the question and the answer arrive", async () => {
      const onInput = async () => {
        proxy.freeze();
        return "typed";
      };
      expect(result(await run(kernel, "input('? ')", { onInput }))).toBe("'typed'");
    });

    test("for good ends the kernel with a sentence", async () => {
      const { kernel: other, proxy: lost } = await impatient.start();
      const running = run(other, "import time; time.sleep(60)");
      lost.isShut = true;
      lost.reset();
      await expect(running).rejects.toMatchObject({ code: "kernel_died" });
      expect((await other.closed).reason).toMatch(
        /^The Jupyter server at http:\S+ cannot be reached: .*\. It was tried/,
      );
    });

    test("and a kernel that was replaced meanwhile is recognized", async () => {
      const { kernel: other, proxy: lost } = await others.start();
      const about = await run(other, "import os, ipykernel; print(os.getpid(), ipykernel.get_connection_file())");
      const [pid = "", file = ""] = text(about).trim().split(" ");
      const running = run(other, "import time; time.sleep(60)");
      lost.isShut = true;
      lost.reset();
      process.kill(Number(pid), "SIGKILL");
      await newProcess(basename(file), Number(pid));
      lost.isShut = false;
      await expect(running).rejects.toMatchObject({ code: "kernel_died" });
      expect((await other.closed).reason).toContain("has started another in its place");
      await other.dispose();
    });
  });
}
