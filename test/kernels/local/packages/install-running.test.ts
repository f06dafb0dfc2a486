import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Sandboxes } from "../../../../src/isolation/sandboxes.ts";
import type { Kernel } from "../../../../src/kernels/kernel.ts";
import { createLocalProvider } from "../../../../src/kernels/local/provider.ts";
import { createLog } from "../../../../src/log.ts";
import { failure as failureOf, result, run, text } from "../../../contracts/kernel.ts";
import { environmentsConfig, type TestPython, testPython } from "../../../support/pythons.ts";
import { describeWith, describeWithPythons, requirement } from "../../../support/requirements.ts";
import { atEnd } from "../../wasm/packages/clear-up.ts";
import { serveFiles } from "../../wasm/packages/stand-in.ts";
import { failure } from "../../wasm/packages/test-packages.ts";
import { wheel } from "../../wasm/packages/wheels.ts";
import { bareEnv, never, reachable, temporaryFolder, wheelFolder } from "./session-packages.ts";

const wheels = [
  wheel("alpha"),
  wheel("alpha", { version: "2.0" }),
  wheel("beta", { requires: ["alpha>=2"] }),
  wheel("gamma"),
  wheel("delta"),
  wheel("numpy", { version: "99.0" }),
];

interface Places {
  env?: NodeJS.ProcessEnv;
  packageDir?: string;
  initial?: string[];
}

/** A session of the provider that users have. Each start is for the same session. */
function sessionOf(
  python: TestPython,
  { env = { ...bareEnv, PIP_NO_INDEX: "1" }, packageDir = wheelFolder(wheels), initial = [] }: Places = {},
) {
  const dataDir = temporaryFolder();
  const log = createLog("error");
  const stateDir = join(dataDir, "state");
  const sandboxes = new Sandboxes({
    jail: requirement("isolation").ok ? "auto" : "none",
    limits: { memoryMb: 1024, diskMb: 1024, pids: 512 },
    workspaceInPlace: false,
    allowRead: [],
    allowWrite: [],
    allowNet: [],
    passedEnv: {},
    hidden: [dataDir],
    log,
  });
  const environments = environmentsConfig({
    dataDir,
    defaultEnv: testPython(python),
    env: { ...env, PATH: bareEnv.PATH },
  });
  const provider = createLocalProvider({
    ...{ environments, sandboxes, stateDir, log },
    limits: { memoryMb: 1024, diskMb: 1024 },
    packages: { initial, packageDir },
    orphanTtlMs: 600_000,
    startTimeoutMs: 120_000,
  });
  atEnd(async () => {
    await provider.dispose();
    await sandboxes.dispose();
  });
  // Unique on this machine: cgroups are named after it.
  const sessionId = randomUUID();
  const folders = { workspaceDir: join(dataDir, "sessions/s/workspace"), runDir: join(dataDir, "sessions/s/run") };
  for (const folder of Object.values(folders)) mkdirSync(folder, { recursive: true });
  let started: Promise<Kernel> | undefined;
  return {
    ...folders,
    kernel: () => {
      started ??= provider.start({ language: "python" }, { sessionId, ...folders, signal: never });
      return started;
    },
    async restart() {
      await (await started)?.dispose();
      started = undefined;
      return this.kernel();
    },
  };
}

/** Runs a cell as a session does. */
async function cell(kernel: Kernel, code: string) {
  await kernel.prepare?.(code, { signal: never });
  return run(kernel, code);
}

const install = (kernel: Kernel, ...requirements: string[]) => kernel.install?.(requirements, { signal: never });

describeWithPythons("a running kernel", (python) => {
  const session = sessionOf(python);

  test("says what a missing module needs, and imports it once it is installed, with its variables kept", async () => {
    const kernel = await session.kernel();
    const error = failureOf(await cell(kernel, "kept = 1\nimport beta"));
    expect(error?.traceback.at(-1)).toMatch(/`beta` is not installed in this session\. .*install_packages/);
    expect(await install(kernel, "beta")).toEqual([
      { name: "beta", version: "1.0" },
      { name: "alpha", version: "2.0" },
    ]);
    expect(result(await cell(kernel, "import alpha, beta; kept, alpha.version, alpha.__file__"))).toMatch(
      /^\(1, '2.0', '.*\/packages\/alpha\/__init__.py'\)$/,
    );
    const outside =
      "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import beta; print(beta.version)'])";
    expect(text(await cell(kernel, outside))).toBe("1.0\n");
  });

  test("installs what lines with pip name before the cell runs, and nothing that only looks like one", async () => {
    const kernel = await session.kernel();
    const code = [
      "first = 1",
      "if first:",
      "    %pip install -q 'gamma>=1' --no-cache-dir",
      "!pip install gamma > /dev/null 2>&1  # again",
      'note = """',
      "!pip install -r requirements.txt",
      '"""',
      "import gamma",
      "print(gamma.version, note.strip())",
    ].join("\n");
    expect(text(await cell(kernel, code)).split("\n")).toEqual([
      "pip install -q 'gamma>=1' --no-cache-dir: done before this cell began.",
      expect.stringMatching(/^pip install gamma .*: done before this cell began\.$/),
      "1.0 !pip install -r requirements.txt",
      "",
    ]);
    const bare = failureOf(await cell(kernel, "pip install gamma"));
    expect(bare?.traceback.at(-1)).toMatch(/install_packages, or by a line that is exactly `%pip install NAME`/);
  });
});

describeWith("managedPython", "a running kernel", () => {
  const session = sessionOf("managed", { initial: ["alpha"] });

  test("has what every session has", async () => {
    expect(result(await run(await session.kernel(), "import alpha; alpha.version"))).toBe("'2.0'");
  });

  test.each([
    ["%pip install -r requirements.txt", "requirement files are not supported; name the packages"],
    ["!pip install -e .", "editable installs are not supported, only wheels of the package index"],
    ["!python -m pip install git+https://example.org/x.git", "contains a URL"],
    ["%uv pip install alpha --index-url https://example.org", "chosen by the operator of Cellwright"],
    ["!pip install alpha && rm -rf x", "it is more than a list of packages"],
    ["!pip install {name}", "is not a requirement"],
    ["%pip install ./alpha.whl", "is a path"],
    ["!{sys.executable} -m pip install --target=. alpha", "`--target=.` is not a supported option"],
    ["%pip install", "it names no package"],
  ])("does not run a cell with `%s`, and says why", async (line, why) => {
    const kernel = await session.kernel();
    const { code, message } = await failure(cell(kernel, `print(1)\n${line}`));
    expect(code).toBe("package_error");
    expect(message).toContain("was not run: ");
    expect(message).toContain(why);
  });

  test("installs what a cell declares in a script block", async () => {
    const kernel = await session.kernel();
    const code = '# /// script\n# dependencies = ["delta"]\n# ///\nimport delta\ndelta.version';
    expect(result(await cell(kernel, code))).toBe("'1.0'");
  });

  test("says that it has loaded another version of a package, which it uses until it is restarted", async () => {
    const kernel = await session.kernel();
    expect(result(await cell(kernel, "import numpy; numpy.__name__"))).toBe("'numpy'");
    expect(await install(kernel, "numpy")).toMatchObject([
      { name: "numpy", version: expect.not.stringMatching(/^99/) },
    ]);
    const said = text(await cell(kernel, "%pip install -U numpy delta"));
    expect(said).toMatch(
      /done before this cell began\. Already imported, so the old version is used until .* reset: numpy\.\n$/,
    );
    expect(await install(kernel, "numpy==99.0")).toEqual([{ name: "numpy", version: "99.0" }]);
    const next = await session.restart();
    expect(next.info.notes?.join()).toMatch(/the session's packages replace those of the environment: numpy/);
    expect(result(await cell(next, "import delta, numpy; numpy.version, delta.version"))).toBe("('99.0', '1.0')");
  });

  test("that ends takes its installation with it", async () => {
    const kernel = await session.kernel();
    const installing = failure(install(kernel, "gamma") ?? Promise.resolve());
    await kernel.dispose();
    expect((await installing).message).toMatch(/kernel ended before the packages were installed/);
    expect(existsSync(join(session.runDir, "packages/gamma"))).toBe(false);
  });
});

describeWith("managedPython", "packages of the real index", () =>
  describeWith("index", "in a running kernel", () => {
    const session = sessionOf("managed", { env: process.env });

    test("work in a kernel that was running before, pure and native ones", async () => {
      const kernel = await session.kernel();
      expect(result(await cell(kernel, "kept = 1; kept"))).toBe("1");
      const code =
        "%pip install -q humanize==4.9.0 msgspec\nimport humanize, msgspec\nhumanize.__version__, msgspec.json.decode(b'[1]'), kept";
      expect(result(await cell(kernel, code))).toBe("('4.9.0', [1], 1)");
    }, 180_000);

    test.skipIf(!requirement("isolation").ok)("do not bring the kernel to the network", async () => {
      const { host, hits } = await serveFiles([]);
      const port = Number(host.split(":")[1]);
      expect(await reachable(port)).toBe(true);
      const kernel = await session.kernel();
      const probe = `import socket\nfor place in [("127.0.0.1", ${port}), ("127.0.0.1", 3128)]:\n  try:\n    socket.create_connection(place, 5); print("connected")\n  except OSError as error:\n    print(type(error).__name__)`;
      expect(text(await cell(kernel, probe))).toBe("ConnectionRefusedError\nConnectionRefusedError\n");
      expect(hits).toEqual([]);
    });
  }),
);
