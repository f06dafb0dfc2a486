import { mkdir, mkdtemp, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { localJail } from "../../../src/isolation/local-jail.ts";
import { startCold } from "../../../src/kernels/local/cold.ts";
import { createConnection } from "../../../src/kernels/protocol/connection.ts";
import { JupyterKernel } from "../../../src/kernels/protocol/kernel.ts";
import { ready } from "../../../src/kernels/protocol/ready.ts";
import { ZmqChannel } from "../../../src/kernels/protocol/zmq.ts";
import { createLog } from "../../../src/log.ts";
import { startTimeOf } from "../../../src/process/process-life.ts";
import { run } from "../../contracts/kernel.ts";
import { testEnvironment, testPython } from "../../support/pythons.ts";
import { describeWith } from "../../support/requirements.ts";
import { until } from "../../support/until.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

describeWith("managedPython", "the process of a cold start", async () => {
  const log = createLog("silent");

  async function inFolder(act: (folder: string) => Promise<void>): Promise<void> {
    const folder = await mkdtemp(join(tmpdir(), "cw-cold-"));
    try {
      await act(folder);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  describe("a kernel that cannot start", () => {
    const files = (folder: string) => ({
      journalFile: join(folder, "journal"),
      heartbeatFile: join(folder, "heartbeat"),
      env: {},
      startTimeoutMs: 60_000,
      signal: new AbortController().signal,
      log,
    });

    test("says why", () =>
      inFolder(async (folder) => {
        const request = {
          connectionFile: join(folder, "connection.json"),
          workingDir: join(folder, "missing"),
          ttlSeconds: 600,
        };
        const { life, lastWords } = await startCold({ python: testPython("managed"), request, ...files(folder) });
        expect((await life.exited).reason).toMatch(/code 1/);
        expect(lastWords()).toContain("FileNotFoundError");
      }));

    test("is refused when there is no such interpreter", () =>
      inFolder(async (folder) => {
        const request = { connectionFile: "", workingDir: folder, ttlSeconds: 600 };
        const started = startCold({ python: join(folder, "python"), request, ...files(folder) });
        await expect(started).rejects.toMatchObject({
          code: "kernel_start_failed",
          message: expect.stringContaining("ENOENT"),
        });
      }));

    test.runIf(process.platform === "linux")(
      "can be aborted while its jail does not start it, as with a mount that hangs",
      () =>
        inFolder(async (folder) => {
          const launcher = join(folder, "launcher");
          const script = '#!/bin/sh\nsleep 1000 &\necho $! >"$0.pid"\nprintf \'{"child-pid": %s}\' $! >&5\nwait';
          await writeFile(launcher, script, { mode: 0o755 });
          const isolation = {
            tier: "namespaces" as const,
            landlockAbi: 0,
            launcher: { kind: "bubblewrap" as const, program: launcher },
          };
          const jail = await localJail({ isolation, environmentPaths: [], workspaceDir: folder });
          const request = { connectionFile: "", workingDir: folder, ttlSeconds: 600 };
          const start = { python: testPython("managed"), request, jail, ...files(folder) };
          const controller = new AbortController();
          const started = expect(startCold({ ...start, signal: controller.signal })).rejects.toThrow("aborted");
          const pidOf = () => readFile(`${launcher}.pid`, "utf8").catch(() => "");
          await until("a first process", async () => (await pidOf()).endsWith("\n"));
          controller.abort();
          await started;
          const first = Number(await pidOf());
          await until("the end of its first process", async () => (await startTimeOf(first)) === undefined);
        }),
    );

    test("is aborted when its caller aborts", () =>
      inFolder(async (folder) => {
        const channel = new ZmqChannel(await createConnection(folder));
        await expect(ready(channel, AbortSignal.timeout(50))).rejects.toThrow("timeout");
        await channel.close();
        await expect(ready(channel, new AbortController().signal)).rejects.toMatchObject({
          code: "kernel_start_failed",
        });
      }));
  });

  test("a kernel whose server is gone ends itself", () =>
    inFolder(async (folder) => {
      const connection = await createConnection(folder);
      const heartbeatFile = join(folder, "heartbeat");
      await mkdir(join(folder, "workspace"));
      const { life } = await startCold({
        python: testPython("managed"),
        request: { connectionFile: connection.insideFile, workingDir: join(folder, "workspace"), ttlSeconds: 1 },
        journalFile: join(folder, "journal"),
        heartbeatFile,
        env: {},
        startTimeoutMs: 60_000,
        signal: new AbortController().signal,
        log,
      });
      // It may live as long as the server wants, whatever it is doing.
      const beating = setInterval(() => void utimes(heartbeatFile, new Date(), new Date()), 100);
      const channel = new ZmqChannel(connection);
      await ready(channel, AbortSignal.timeout(120_000));
      const info = { provider: "local", language: "python" as const, description: "", layers: [] };
      const kernel = new JupyterKernel({ info, channel, life });
      await run(kernel, "import time; time.sleep(2)");
      clearInterval(beating);
      await expect(run(kernel, "while True: pass")).rejects.toMatchObject({ code: "kernel_died" });
      expect((await kernel.closed).reason).toMatch(/SIGKILL/);
    }));
});

describeWith("localKernels", "a cold start", () => {
  const kernels = providerKernels(builtFrom({ kernel: "local", allowEnvPaths: true }));
  const start = () => kernels.start({ env: testEnvironment("managed") });

  test("a death is reported with its signal or exit code", async () => {
    const killed = await start();
    await expect(run(killed.kernel, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")).rejects.toMatchObject({
      message: expect.stringContaining("SIGSEGV"),
    });
    const left = await start();
    await expect(run(left.kernel, "import os; os._exit(7)")).rejects.toMatchObject({
      message: expect.stringContaining("7"),
    });
  });

  test("the journal has the newest cell, and what came before it is cut off in time", async () => {
    const { kernel, runDir } = await start();
    const journal = () => readFile(join(runDir, "journal"), "latin1");
    await run(kernel, "print('first')");
    await run(kernel, "print('second')");
    expect(await journal()).toMatch(/second/);
    await run(kernel, "print('long' * 2_000_000)");
    await run(kernel, "print('after')");
    expect(await journal()).toMatch(/after/);
    expect((await journal()).length).toBeLessThan(100_000);
    await run(kernel, "for i in range(80): print('x' * 1_000_000)");
    expect((await journal()).length).toBeLessThan(65 * 1024 * 1024);
  });
});
