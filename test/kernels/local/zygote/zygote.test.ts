import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { localJail } from "../../../../src/isolation/local-jail.ts";
import { goneByLooking } from "../../../../src/kernels/local/kernel-process.ts";
import type { Zygote } from "../../../../src/kernels/local/zygote/zygote.ts";
import { describeWithIsolations } from "../../../support/isolations.ts";
import { testPython } from "../../../support/pythons.ts";
import { describeWith, describeWithPythons } from "../../../support/requirements.ts";
import { builtFrom, providerKernels } from "../../provider-kernels.ts";
import {
  type ForkOptions,
  forkKernel,
  openTestZygote,
  scientific,
  temporaryFolder,
  textOf,
} from "../forked-kernels.ts";

const folder = temporaryFolder(afterAll);
const shared = join(folder, "state");
const dead = { code: null, signal: "SIGKILL" };

let zygote: Zygote;
beforeAll(async () => {
  process.env.CELLWRIGHT_TEST_SECRET = "of-the-server";
  zygote = await openTestZygote(shared, { preload: scientific });
});
afterAll(() => zygote.dispose());

async function fork(options: ForkOptions & { from?: Zygote } = {}) {
  const { from = zygote, ...rest } = options;
  const forked = await forkKernel(from, folder, rest);
  onTestFinished(() => forked.kernel.dispose());
  const run = (code: string) => textOf(forked.kernel.execute(code));
  return { ...forked, run };
}

describeWithPythons("a fork", (which) => {
  const kernels = providerKernels(builtFrom({ kernel: "local", env: testPython(which), jail: "none" }));
  const start = async () => {
    const { kernel } = await kernels.start();
    onTestFinished(() => kernel.dispose());
    return { kernel, run: (code: string) => textOf(kernel.execute(code)) };
  };

  test("has imported what its environment has, and runs cells", async () => {
    const { run } = await start();
    expect(await run("import sys; [name in sys.modules for name in ('numpy', 'matplotlib.pyplot')]")).toBe(
      "[True, True]",
    );
    expect(await run("sys.executable")).toBe(`'${testPython(which)}'`);
    expect(await run("import numpy; int(numpy.arange(10).sum())")).toBe("45");
  });

  test("draws, starts threads and processes", async () => {
    const { kernel, run } = await start();
    const types: string[] = [];
    for await (const event of kernel.execute("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")) {
      if (event.type === "display") types.push(...Object.keys(event.data));
    }
    expect(types).toContain("image/png");
    const code = "from concurrent.futures import *\n";
    expect(await run(`${code}with ThreadPoolExecutor(4) as pool: print(sum(pool.map(abs, range(-9, 0))))`)).toBe(
      "45\n",
    );
    expect(await run("with ProcessPoolExecutor(2) as pool: print(sum(pool.map(abs, range(-9, 0))))")).toBe("45\n");
    expect(await run("import subprocess; subprocess.run(['echo', 'hi'], capture_output=True).stdout")).toBe("b'hi\\n'");
  });

  test("draws random numbers of its own", async () => {
    const draw =
      "import random, numpy; print(random.random(), numpy.random.rand(), numpy.random.default_rng().random())";
    const [one, other] = await Promise.all([start(), start()]);
    const numbers = [...(await one.run(draw)).trim().split(" "), ...(await other.run(draw)).trim().split(" ")];
    expect(new Set(numbers).size).toBe(6);
  });
});

describeWith("managedPython", "the end of a kernel", () => {
  test("is reported with its exit code", async () => {
    const { kernel, process } = await fork();
    await expect(textOf(kernel.execute("import os; os._exit(3)"))).rejects.toMatchObject({ code: "kernel_died" });
    expect(await process.exited).toEqual({ code: 3, signal: null });
    expect((await kernel.closed).reason).toContain("3");
  });

  test("is reported with the signal that killed it", async () => {
    const { kernel, process: forked } = await fork();
    process.kill(forked.pid, "SIGKILL");
    expect(await forked.exited).toEqual(dead);
    expect((await kernel.closed).reason).toContain("SIGKILL");
  });

  test("is seen when the zygote is gone, without which kernels go on", async () => {
    const lonely = await openTestZygote(temporaryFolder(onTestFinished));
    const { run, process: forked } = await fork({ from: lonely });
    await run("kept = 41");
    process.kill(lonely.info.pid, "SIGKILL");
    await lonely.closed;
    expect(await run("kept + 1")).toBe("42");
    await expect(forkKernel(lonely, folder)).rejects.toThrow("it is gone");
    process.kill(forked.pid, "SIGKILL");
    expect(await forked.exited).toEqual({ code: null, signal: null });
  });

  test("is reported to a second server as well", async () => {
    const second = await openTestZygote(shared, { preload: scientific });
    onTestFinished(() => second.dispose());
    expect(second.info.pid).toBe(zygote.info.pid);
    const { process: forked } = await fork();
    const watched = await second.watch(forked);
    process.kill(forked.pid, "SIGKILL");
    expect(await watched.exited).toEqual(dead);
  });

  test("is reported to a server that was disconnected", async () => {
    const { process: forked } = await fork();
    process.kill(forked.pid, "SIGKILL");
    await forked.exited;
    const next = await openTestZygote(shared, { preload: scientific });
    onTestFinished(() => next.dispose());
    expect(await (await next.watch(forked)).exited).toEqual(dead);
  });

  test("takes what it started with it", async () => {
    const { kernel, run } = await fork();
    const pid = Number(await run("import subprocess; child = subprocess.Popen(['sleep', '600']); child.pid"));
    await kernel.dispose();
    await goneByLooking({ pid });
  });
});

describeWith("managedPython", "orphaned kernels", () => {
  test("end, and their zygote after them, when no server has been there for long", async () => {
    const stateDir = temporaryFolder(onTestFinished);
    const forgotten = await openTestZygote(stateDir, { idleSeconds: 0.5 });
    const { process: forked, run } = await fork({ from: forgotten, ttlSeconds: 1 });
    // A kernel that touches its own heartbeat.
    await run(`
import os, threading, time
mine = next(fd for fd in map(int, os.listdir('/proc/self/fd')) if os.readlink(f'/proc/self/fd/{fd}').endswith('heartbeat'))
def touch():
    while True:
        os.utime(mine)
        time.sleep(0.05)
threading.Thread(target=touch, daemon=True).start()
`);
    await forgotten.dispose();
    await forked.exited;
    await goneByLooking(forgotten.info);
    expect(readdirSync(stateDir).filter((name) => name.endsWith(".sock"))).toEqual([]);
  });

  test("end when their own heartbeat stops, even if a client is connected", async () => {
    const { process: forked } = await fork({ ttlSeconds: 1 });
    expect(await forked.exited).toEqual(dead);
  });

  test("are not forked for a caller that gave up", async () => {
    await expect(forkKernel(zygote, folder, { signal: AbortSignal.abort(new Error("no more")) })).rejects.toThrow(
      "no more",
    );
    expect(readdirSync(zygote.socketFile.replace(".sock", ".forks"))).toEqual([]);
  });
});

describeWith("managedPython", "a zygote", () => {
  test("is one for all who ask at the same time, and ends when the last of them stops in good order", async () => {
    // Longer than a socket address may be.
    const stateDir = join(temporaryFolder(onTestFinished), "a-long-name".repeat(20));
    const [first, second] = await Promise.all([openTestZygote(stateDir), openTestZygote(stateDir)]);
    expect(first.info.pid).toBe(second.info.pid);
    await first.dispose();
    const { process: forked, kernel } = await fork({ from: second });
    process.kill(forked.pid, "SIGKILL");
    await second.dispose();
    await kernel.closed;
    await goneByLooking(second.info);
  });

  test("does without a module whose import starts threads", async () => {
    const python = environmentWith({
      "starts_thread.py":
        "import threading, time; threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
      "raises.py": "1 / 0",
      "harmless.py": "",
    });
    const preload = ["harmless", "starts_thread", "raises", "not_installed"];
    const careful = await openTestZygote(temporaryFolder(onTestFinished), { python, preload });
    onTestFinished(() => careful.dispose());
    expect(careful.info.loaded).toEqual(["harmless"]);
    expect(careful.info.left).toEqual({
      starts_thread: "its import starts threads",
      raises: "ZeroDivisionError: division by zero",
    });
    const { run } = await fork({ from: careful });
    expect(await run("import sys; 'starts_thread' in sys.modules")).toBe("False");
  });

  test("is not available for a Python that always has threads, with the reason", async () => {
    // Not sitecustomize.py: Debian's Python has its own, which comes first.
    const python = environmentWith({
      "starts-thread.pth":
        "import threading, time; threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
    });
    const opening = openTestZygote(temporaryFolder(onTestFinished), { python });
    await expect(opening).rejects.toThrow("the process has several threads");
  });

  test("is not available for a Python without ipykernel, with the reason", async () => {
    const python = environmentWith({}, { empty: true });
    const opening = openTestZygote(temporaryFolder(onTestFinished), { python });
    await expect(opening).rejects.toThrow("No module named");
  });

  test("is not available for a Python that does not exist", async () => {
    const opening = openTestZygote(temporaryFolder(onTestFinished), { python: "/nowhere/python" });
    await expect(opening).rejects.toThrow("ENOENT");
  });
});

describeWith("managedPython", "what a fork inherits", () => {
  test("one thread, and the libraries' threads widened again", async () => {
    const { run } = await fork({});
    const code = `
import ctypes, os
library = ctypes.CDLL(next(line.split()[-1] for line in open('/proc/self/maps') if 'openblas' in line))
widened = library.scipy_openblas_get_num_threads64_() == len(os.sched_getaffinity(0))
print(widened, [name for name in os.environ if 'THREADS' in name or 'MALLOC' in name])`;
    expect(await run(code)).toBe("True []\n");
  });

  test("nothing of the server's environment", async () => {
    const { run } = await fork({ env: { GIVEN: "yes" } });
    expect(await run("import os; os.environ['GIVEN'], 'CELLWRIGHT_TEST_SECRET' in os.environ")).toBe("('yes', False)");
    expect(
      await run("sorted(line.split(b'=')[0] for line in open('/proc/self/environ', 'rb').read().split(b'\\0'))"),
    ).toBe("[b'', b'LANG', b'PATH']");
    expect(await run("open('/proc/self/cmdline', 'rb').read().strip(b'\\0').split(b'\\0')[1:-1]")).toBe("[b'-I']");
  });

  test("nothing of what another kernel was told", async () => {
    await fork({ env: { TOKEN: "secret-of-another-kernel" } });
    const { run } = await fork({ env: { TOKEN: "found-here" } });
    const code = `
import re
def find(pattern):
    with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb') as memory:
        for line in maps:
            low, high = (int(part, 16) for part in line.split()[0].split('-'))
            if ' rw' in line[:40] and '[vv' not in line:
                memory.seek(low)
                if re.search(pattern, memory.read(high - low)):
                    return True
    return False
# Patterns that do not match themselves.
print(find(rb'[f]ound[-]here'), find(rb'[s]ecret[-]of[-]another[-]kernel'))`;
    expect(await run(code)).toBe("True False\n");
  });

  test("none of its descriptors", async () => {
    const { run } = await fork();
    const code = `
import os
names = [os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{fd}')]
print([name for name in names if 'zygote' in name.rpartition('/')[2] or 'request' in name])`;
    expect(await run(code)).toBe("[]\n");
  });
});

describeWith("localKernels", "in a jail", () => {
  describeWithIsolations(
    "a fork",
    (isolation) => {
      test("says why it could not be built", async () => {
        const workspaceDir = temporaryFolder(onTestFinished);
        const policy = await localJail({ isolation, environmentPaths: [], workspaceDir });
        const impossible = { ...policy, readOnly: [...policy.readOnly, { from: "/not/there", at: "/not/there" }] };
        await expect(forkKernel(zygote, folder, { jail: impossible })).rejects.toThrow("/not/there");
      });
    },
    ["namespaces"],
  );
});

/** A virtual environment with these modules, and with all packages of the tests' Python unless it is to be empty. */
function environmentWith(modules: Record<string, string>, { empty = false } = {}): string {
  const home = join(temporaryFolder(onTestFinished), "env");
  const base = testPython("managed");
  execFileSync(base, ["-m", "venv", "--without-pip", home]);
  const script = "import sysconfig; print(sysconfig.get_paths()['purelib'])";
  const sitePackages = (python: string) => execFileSync(python, ["-I", "-c", script], { encoding: "utf8" }).trim();
  const python = join(home, "bin/python");
  const site = sitePackages(python);
  mkdirSync(site, { recursive: true });
  if (!empty) writeFileSync(join(site, "base.pth"), `${sitePackages(base)}\n`);
  for (const [name, source] of Object.entries(modules)) writeFileSync(join(site, name), source);
  return python;
}
