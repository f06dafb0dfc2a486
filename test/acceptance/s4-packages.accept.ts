/** mcp-run-python: packages, from folders of wheels and from Pyodide's own distribution. */

import { describe, expect, test } from "vitest";
import { describeWithMicropip } from "../kernels/wasm/packages/micropip-wheel.ts";
import { temporaryDataDir } from "../support/program.ts";
import { messagesOf, offline, outOfReach, runProgram, startStdio, success, wheelFolder } from "./s4-support.ts";
import { shared } from "./x-support.ts";

/** Installing builds an image of the packages, and a snapshot with them. */
const SLOW_MS = 180_000;

describeWithMicropip("S4 packages", (micropip) => {
  const folder = shared(async (atEnd) => wheelFolder(micropip, atEnd));
  const server = shared((atEnd) =>
    startStdio(["--package-dir", wheelFolder(micropip, atEnd), ...offline, "--warm", "1"], { atEnd }),
  );

  test(
    "S4-21 what a script block names is installed",
    async () => {
      const text = await server().run('# /// script\n# dependencies = ["alpha"]\n# ///\nimport alpha\nalpha.version');
      expect(text).toBe(
        `<status>success</status>\n<dependencies>["alpha"]</dependencies>\n<return_value>\n1.0\n</return_value>`,
      );
    },
    SLOW_MS,
  );

  test(
    "S4-23 what is imported is installed, unless that is switched off (a numpy of our own making)",
    async () => {
      const text = await server().run("import numpy\nnumpy.array([1, 2])");
      expect(text).toBe(
        '<status>success</status>\n<dependencies>["numpy"]</dependencies>\n<return_value>\n[\n  1,\n  2\n]\n</return_value>',
      );
      const off = await startStdio(["--package-dir", folder(), ...offline, "--no-install"]);
      expect(await off.run("import numpy")).toMatch(
        /^<status>run-error<.*\nModuleNotFoundError: No module named 'numpy'\n/s,
      );
      expect(await server().run("import sklearn\nsklearn.version")).toContain('<dependencies>["scikit-learn"]<');
      expect(await server().run("import nosuch_module_anywhere")).toMatch(
        /ModuleNotFoundError: No module named 'nosuch_module_anywhere'\n\n<\/error>$/,
      );
    },
    SLOW_MS,
  );

  test(
    "S4-24 what does not exist is an install-error; a folder of wheels needs no network",
    async () => {
      const messages = messagesOf(server().client);
      await server().client.setLoggingLevel("debug");
      const missing = await server().run('# /// script\n# dependencies = ["nosuch-package"]\n# ///\nprint("ran")');
      expect(missing).toMatch(
        /^<status>install-error<\/status>\n<output>\ninstall error: .*<error>\n.*nosuch-package.*\n\n<\/error>$/s,
      );
      expect(missing).not.toContain("ran\n");
      expect(messages.find(({ level }) => level === "error")?.data).toContain("nosuch-package");
      expect(messages.find(({ level }) => level === "debug")?.data).toContain("installing nosuch-package");
      expect(await server().run('# /// script\n# dependencies = ["beta"]\n# ///\nimport beta')).toContain('["beta"]');
    },
    SLOW_MS,
  );

  test(
    "S4-26 what packages need besides (rich and httpx of our own making)",
    async () => {
      const { run } = await startStdio(["--deps", "httpx,rich", "--package-dir", folder(), ...offline]);
      const text = await run("import httpx, rich, ssl, pygments\n[httpx.version, rich.version]");
      expect(text).toBe(success('[\n  "1.0",\n  "1.0"\n]'));
    },
    SLOW_MS,
  );

  test(
    "S4-11 packages at the start are not named in replies, unless they are to be (a numpy of our own making)",
    async () => {
      const args = ["--package-dir", folder(), ...offline];
      const { run } = await startStdio(["--dependencies", "numpy", ...args]);
      expect(await run("import numpy\nnumpy.array([1, 2, 3])")).toBe(success("[\n  1,\n  2,\n  3\n]"));
    },
    SLOW_MS,
  );

  test(
    "example of the document: numpy at the start, with its reply as printed (a numpy of our own making)",
    async () => {
      const args = ["--package-dir", folder(), ...offline, "--list-packages"];
      const { run } = await startStdio(["--deps", "numpy", ...args]);
      expect(await run("\nimport numpy\na = numpy.array([1, 2, 3])\nprint(a)\na\n")).toBe(`<status>success</status>
<dependencies>["numpy"]</dependencies>
<output>
[1 2 3]
</output>
<return_value>
[
  1,
  2,
  3
]
</return_value>`);
    },
    SLOW_MS,
  );

  test(
    "S4-28 the example with numpy (one of our own making)",
    async () => {
      const args = ["--data-dir", temporaryDataDir(), "--package-dir", folder(), ...offline];
      const { code, stdout } = await runProgram(["--deps", "numpy", ...args, "example"]);
      expect(stdout).toBe(
        "Tool return value:\n<status>success</status>\n<output>\nnumpy array: [1 2 3]\n</output>\n" +
          "<return_value>\n[\n  1,\n  2,\n  3\n]\n</return_value>\n",
      );
      expect(code).toBe(0);
    },
    SLOW_MS,
  );
});

describe("S4 with Pyodide's own distribution", () => {
  test(
    "S4-11 numpy at the start, in WebAssembly",
    async (context) => {
      const { run } = await startStdio(["--deps", "numpy"]);
      const text = await run("import numpy\nnumpy.array([1, 2, 3])");
      if (outOfReach.test(text))
        context.skip("Pyodide's distribution is out of reach here; the cases beside it stand in");
      expect(text).toBe(success("[\n  1,\n  2,\n  3\n]"));
    },
    SLOW_MS,
  );
});
