import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { findSources } from "../../src/kernels/wasm/sources.ts";
import { programPath, startStdio, temporaryDataDir } from "../support/program.ts";
import { describeWith } from "../support/requirements.ts";

const run = promisify(execFile);
/** A minute on an idle machine, including all downloads. */
const INSTALL_MS = 400_000;

describeWith("index", "packages from the index", () => {
  test(
    "are there when a cell imports them, names them in a script block, or a tool or an option asks",
    async () => {
      const client = await startStdio({ args: ["--packages", "msgspec"] });
      const wait_s = 170;
      const first = await client.run("import msgspec\nkept = msgspec.json.decode(b'[1, 2]')\nkept", { wait_s });
      expect(first.text).toContain("[1, 2]");
      const { session_id } = first.execution;
      const ask = async (code: string, expected: string) => {
        const reply = await client.run(code, { session_id, wait_s });
        expect(reply.text).toContain(expected);
        expect(reply.execution.status).toBe("ok");
      };
      await ask("import networkx as nx\nnx.path_graph(4).size()", "3");
      await ask(
        '# /// script\n# dependencies = ["tabulate>=0.9"]\n# ///\nimport tabulate\ntabulate.tabulate([[7]])',
        "7",
      );
      const told = await client.call("install_packages", { session_id, packages: ["pydantic", "openpyxl"] });
      expect(told.text).toMatch(/pydantic.core/);
      await ask("import pydantic, openpyxl\npydantic.TypeAdapter(int).validate_python('7'), kept", "(7, [1, 2])");
      const listed = await run(process.execPath, [programPath, "packages", "list", "--data-dir", client.dataDir]);
      expect(listed.stdout).toMatch(/networkx \d/);
    },
    INSTALL_MS,
  );

  test(
    "that need what cannot be reached are an error that names the culprit, and the session goes on",
    async () => {
      const client = await startStdio({ args: ["--pyodide-base-url", "http://127.0.0.1:1/"] });
      const { session_id } = (await client.run("kept = 1")).execution;
      const failed = await client.run("print('began')\nimport seaborn", { session_id, wait_s: 170 });
      expect(failed.execution.status).toBe("error");
      expect(failed.text).toMatch(/numpy.*needed by seaborn/s);
      expect(failed.text).not.toContain("began\n");
      expect((await client.run("kept", { session_id })).text).toContain("1");
    },
    INSTALL_MS,
  );

  test("with --no-install stay missing, and the error says how to get them", async () => {
    const client = await startStdio({ args: ["--no-install"] });
    const { text, execution } = await client.run("import sympy");
    expect(execution.status).toBe("error");
    expect(text).toContain("ModuleNotFoundError");
    expect(text).toContain("install_packages");
  });

  test(
    "do not give the code a network, while and after they are installed",
    async () => {
      const reached: string[] = [];
      const server = createServer((request, response) => {
        reached.push(request.url ?? "");
        response.end("reached");
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      onTestFinished(() => {
        server.close();
      });
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const probe = (path: string) => `from pyodide.code import run_js
try: answer = await run_js("fetch('${url}/${path}').then(r => r.text())")
except BaseException as error: answer = f"refused: {type(error).__name__}"
answer`;
      const client = await startStdio();
      const { session_id } = (await client.run(probe("before"))).execution;
      const installing = client.call("install_packages", { session_id, packages: ["tabulate"] });
      expect((await client.run(probe("while"), { session_id })).text).toContain("refused");
      expect((await installing).isError).toBe(false);
      expect((await client.run(`import tabulate\n${probe("after")}`, { session_id })).text).toContain("refused");
      expect(reached).toEqual([]);
      // The control: the same fetch in the same runtime, without the protection.
      const control = ["eval", `console.log(await fetch('${url}/control').then((r) => r.text()))`];
      expect((await run(findSources().denoFile, control)).stdout).toBe("reached\n");
    },
    INSTALL_MS,
  );
});

describeWith("index", "packages from a folder", () =>
  describeWith("bubblewrap", "in a namespace of its own", (bwrap) =>
    describeWith("fastmcp", "with pip to fetch the wheels", (python) => {
      test(
        "work with no network at all",
        async () => {
          const folder = mkdtempSync(join(tmpdir(), "cellwright-wheels-"));
          onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
          const wheels = ["--no-deps", "--only-binary", ":all:", "--python-version", "3.14", "--dest", folder];
          await run(python, [
            "-m",
            "pip",
            "download",
            "--quiet",
            ...wheels,
            "micropip",
            "packaging",
            "sympy",
            "mpmath<1.4",
          ]);
          const script = join(folder, "use.py");
          writeFileSync(script, "import sympy\nprint(sympy.factorint(60))");
          const offline = ["--dev-bind", "/", "/", "--unshare-net", process.execPath, programPath];
          const settings = ["--data-dir", temporaryDataDir(), "--package-dir", folder];
          const { stdout } = await run(bwrap, [...offline, "run", script, ...settings]);
          expect(stdout).toBe("{2: 2, 3: 1, 5: 1}\n");
        },
        INSTALL_MS,
      );
    }),
  ),
);
