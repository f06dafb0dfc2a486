import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { familyOf } from "../../../src/isolation/processes.ts";
import { Sandboxes, type WatchedKernel } from "../../../src/isolation/sandboxes.ts";
import { createBashProvider } from "../../../src/kernels/bash/provider.ts";
import { type BashStart, startBash } from "../../../src/kernels/bash/start.ts";
import { endMarked, MARK_VARIABLE } from "../../../src/kernels/bash/strays.ts";
import type { Kernel } from "../../../src/kernels/kernel.ts";
import { createLog } from "../../../src/log.ts";
import { isAlive, startTimeOf } from "../../../src/process/process-life.ts";
import { run, text } from "../../contracts/kernel.ts";
import { describeWithTiers } from "../../support/isolations.ts";
import { describeWith } from "../../support/requirements.ts";
import { until } from "../../support/until.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

const folder = mkdtempSync(join(tmpdir(), "cellwright-bash-"));
const env = { PATH: "/usr/local/bin:/usr/bin:/bin", LANG: "C.UTF-8" };
const kernels: Kernel[] = [];
let started = 0;

afterAll(async () => {
  await Promise.all(kernels.map((kernel) => kernel.dispose()));
  rmSync(folder, { recursive: true, force: true });
});

async function folders() {
  started += 1;
  const workspaceDir = join(folder, `${started}`, "workspace");
  const runDir = join(folder, `${started}`, "run");
  for (const path of [workspaceDir, runDir]) await mkdir(path, { recursive: true });
  return { workspaceDir, runDir };
}

/** A shell with options that the provider does not use. */
async function startOther(options: Partial<BashStart>) {
  const own = await folders();
  const kernel = await startBash({
    ...own,
    env,
    info: { provider: "test", layers: [] },
    startTimeoutMs: 120_000,
    signal: new AbortController().signal,
    log: createLog("error"),
    ...options,
  });
  kernels.push(kernel);
  return { kernel, ...own };
}

describeWith("bubblewrap", "in a jail", () => {
  const { start } = providerKernels(builtFrom({ kernel: "local", jail: "namespaces" }));

  test("a shell cannot change its pipes and cells, nor see others", async () => {
    const { kernel } = await start({ language: "bash" });
    const code =
      "touch /run/bash/x; rm -rf /run/bash; ls /run/bash | wc -l; ls /run; ls $(dirname /workspace) | grep -c tmp";
    const events = await run(kernel, code);
    expect(text(events, "stderr")).toContain("Read-only file system");
    expect(text(events).split("\n")[1]).toBe("bash");
    expect(text(await run(kernel, "echo fine; ls /proc | grep -c '^[0-9]'"))).toMatch(/^fine\n[1-9]\n$/);
  });
});

describeWithTiers("an isolated shell", (jail) => {
  const { start } = providerKernels(builtFrom({ kernel: "local", jail }));

  test("is not called closed before the last of its processes is gone", async () => {
    const { kernel } = await start({ language: "bash" });
    // Enough of them that ending them takes a while.
    await run(kernel, "for i in {1..40}; do setsid sleep 1000 & done");
    const family = await familyOf((kernel as unknown as WatchedKernel).pid ?? 0);
    expect(family.length).toBeGreaterThan(40);
    const starts = await Promise.all(family.map(startTimeOf));
    await kernel.dispose();
    const left = await Promise.all(family.map((pid, index) => isAlive(pid, starts[index])));
    expect(left.filter(Boolean)).toEqual([]);
  });
});

describe("a shell", () => {
  const { start } = providerKernels(builtFrom({ kernel: "local", jail: "none" }));

  test("leaves no file behind when it is gone, and gets no environment but its own", async () => {
    process.env.CELLWRIGHT_TEST_SECRET = "hunter2";
    const { kernel, runDir } = await start({ language: "bash" });
    const events = await run(kernel, "env");
    expect(text(events)).not.toContain("hunter2");
    expect(readdirSync(runDir)).toEqual([expect.stringMatching(/^bash-/), "packages"]);
    await kernel.dispose();
    // The session's own folder, for its next kernel.
    expect(readdirSync(runDir)).toEqual(["packages"]);
  });

  test("has the limits of its files where no jail sets them", async () => {
    const limits = { procsFiles: [], fileSizeMb: 1, processes: 4000, openFiles: 100 };
    const { kernel } = await startOther({ limits });
    const events = await run(kernel, "ulimit -n; head -c 3000000 /dev/zero >large; ulimit -n 200");
    expect(text(events)).toBe("100\n");
    expect(text(events, "stderr")).toMatch(/ulimit/);
    expect(text(await run(kernel, "wc -c <large"))).toBe("1048576\n");
  });

  test("that cannot be started says why and leaves nothing", async () => {
    const own = await folders();
    const failing = startOther({ ...own, env: { PATH: "/nowhere" } });
    await expect(failing).rejects.toMatchObject({
      code: "kernel_start_failed",
      message: expect.stringContaining("bash"),
    });
    expect(readdirSync(own.runDir)).toEqual([]);
  });

  test("whose start takes too long, or is cancelled, is aborted", async () => {
    const own = await folders();
    const stuck = join(own.runDir, "../bin");
    await mkdir(stuck);
    await writeFile(join(stuck, "bash"), "#!/bin/sh\necho here >here\nsleep 600\n", { mode: 0o755 });
    const slow = { ...own, env: { PATH: `${stuck}:${env.PATH}` } };
    await expect(startOther({ ...slow, startTimeoutMs: 50 })).rejects.toMatchObject({ code: "kernel_start_timeout" });

    const wanted = new AbortController();
    const starting = startOther({ ...slow, signal: wanted.signal });
    starting.catch(() => {});
    await rm(join(own.workspaceDir, "here"), { force: true });
    await until("its start", () => existsSync(join(own.workspaceDir, "here")));
    wanted.abort(new Error("not wanted"));
    await expect(starting).rejects.toThrow("not wanted");
    expect(readdirSync(own.runDir)).toEqual([]);
  });

  test("that dies of something known says so", async () => {
    const { kernel } = await startOther({ causeOfDeath: async () => "The session used more than 5 MB of memory." });
    await run(kernel, "kill -9 $$").catch(() => {});
    expect(await kernel.closed).toEqual({ reason: "The session used more than 5 MB of memory." });
  });
});

// By the mark that is visible in /proc.
test.skipIf(process.platform !== "linux")(
  "what becomes another program all the time is found with its mark, too",
  async () => {
    const script = join(folder, "restless");
    await writeFile(script, '#!/bin/sh\nexec "$0"\n', { mode: 0o755 });
    for (let round = 0; round < 20; round += 1) {
      const mark = `restless-${round}`;
      const child = spawn(script, { env: { ...env, [MARK_VARIABLE]: mark }, stdio: "ignore" });
      const exited = once(child, "exit");
      await once(child, "spawn");
      await endMarked(mark);
      expect(await exited).toEqual([null, "SIGKILL"]);
    }
  },
);

describeWith("isolation", "a shell of the provider", () => {
  test("hands over all its processes to be watched, those that left it too", async () => {
    const log = createLog("error");
    const sandboxes = new Sandboxes({
      ...{ jail: "auto" as const, limits: { memoryMb: 512, pids: 64, diskMb: 64 }, workspaceInPlace: false, log },
      ...{ allowRead: [], allowWrite: [], allowNet: [], passedEnv: {}, hidden: [] },
    });
    const watched: WatchedKernel[] = [];
    const around = sandboxes.for.bind(sandboxes);
    sandboxes.for = async (...args) => ({ ...(await around(...args)), watch: (kernel) => void watched.push(kernel) });
    const own = await folders();
    const provider = createBashProvider({
      sandboxes,
      environment: () => Promise.reject(new Error("no environment")),
      packagesOf: async () => own.runDir,
      startTimeoutMs: 120_000,
      log,
    });
    const signal = new AbortController().signal;
    const kernel = await provider.start({ language: "bash" }, { ...own, sessionId: "watched", signal });
    kernels.push(kernel);
    await run(kernel, "(setsid sleep 4242 &) ; sleep 4243 &");
    const [{ pid = 0 } = {}] = watched;
    const commands = async () =>
      Promise.all((await familyOf(pid)).map((each) => readFile(`/proc/${each}/cmdline`, "latin1").catch(() => "")));
    await expect.poll(commands).toEqual(expect.arrayContaining(["sleep\x004242\0", "sleep\x004243\0"]));
    await provider.dispose();
    await sandboxes.dispose();
  });
});
