import { beforeAll, describe, expect, test } from "vitest";
import type { ExecutionEvent } from "../../../../src/execution.ts";
import { failure, result, run, runUntilReady, text } from "../../../contracts/kernel.ts";
import { until } from "../../../support/program.ts";
import { describeWith } from "../../../support/requirements.ts";
import type { TestKernel } from "../../provider-kernels.ts";
import { jupyterKernels, quickServer } from "../remote-kernels.ts";

for (const name of ["jupyterServer", "debianJupyterServer"] as const) {
  describeWith(name, `${name}: a stock kernel that became ours`, (python) => {
    const remote = jupyterKernels(python);
    let it: TestKernel;
    beforeAll(async () => {
      it = await remote.start();
    });

    test("has no names, files, history, tokens or settings of ours or of its server", async () => {
      expect(await it.workspace.list("")).toEqual({ entries: [], more: false });
      expect(await it.kernel.inspect?.({ limit: 100 })).toEqual([]);
      const { token } = await remote.jupyter();
      const about = await run(it.kernel, "import os, sys; sorted(os.environ.items()), sys.argv, sys.path[0]");
      expect(result(about)).not.toContain(token);
      expect(result(about)).not.toMatch(/JUPYTER_TOKEN|JPY|matplotlib_inline/);
      const history =
        "import sqlite3, glob, os\n[file] = glob.glob(os.path.expanduser('~/.ipython/profile_*/history.sqlite')) or [None]\n" +
        "file and sqlite3.connect(file).execute('select count(*) from history').fetchone()";
      expect(["(0,)", undefined]).toContain(result(await run(it.kernel, history)));
    });

    describe("an interrupt", () => {
      test.each([
        ["a sleep", "import time; time.sleep(100)"],
        ["an await", "import asyncio; await asyncio.sleep(100)"],
        ["a loop inside an await", "async def spin():\n    while True: pass\nawait spin()"],
        ["a repr", "class Slow:\n    def __repr__(self):\n        while True: pass\nSlow()"],
        ["a process", "import subprocess; subprocess.run(['sleep', '100'])"],
      ])("stops %s and keeps variables", async (_name, code) => {
        await run(it.kernel, "kept = 'still here'");
        const cell = `print('ready', flush=True)\n${code}`;
        const events = await runUntilReady(it.kernel, cell, () => it.kernel.interrupt?.());
        expect(failure(events)).toMatchObject({ name: "KeyboardInterrupt" });
        expect(result(await run(it.kernel, "kept"))).toBe("'still here'");
      });
    });

    test("output of a thread that was left behind is its own cell's", async () => {
      const late: ExecutionEvent[] = [];
      const code =
        "import threading\ngo = threading.Event()\ndef work():\n    go.wait(); print('late'); display('shown late')\n" +
        "thread = threading.Thread(target=work); thread.start()";
      await run(it.kernel, code, { onLate: (event) => late.push(event) });
      const next = await run(it.kernel, "print('next'); go.set(); thread.join(); print('end')");
      expect(text(next)).toBe("next\nend\n");
      expect(text(late)).toBe("late\n");
      expect(late[1]).toMatchObject({ type: "display", data: { "text/plain": "'shown late'" } });
    });

    test("output of processes is in order, and that of forked Python processes arrives", async () => {
      const code =
        "import os, subprocess, sys, multiprocessing\nprint('a'); os.system('echo b'); print('c')\n" +
        "subprocess.run(['echo', 'd'], stdout=sys.stdout); print('e')\n" +
        "with multiprocessing.get_context('fork').Pool(1) as pool: pool.map(print, ['f'])\n'value'";
      const late: ExecutionEvent[] = [];
      const events = await run(it.kernel, code, { onLate: (event) => late.push(event) });
      // Output of a fork goes through a thread of the kernel, which may send it after the end of the cell.
      await until("the fork's own", () => text([...events, ...late]) === "a\nb\nc\nd\ne\nf\n");
    });

    test("input() asks the user if it can, and otherwise says that it cannot", async () => {
      expect(result(await run(it.kernel, "input('? ')", { onInput: async () => "Ada" }))).toBe("'Ada'");
      expect(failure(await run(it.kernel, "input('? ')"))).toMatchObject({ name: "EOFError" });
    });

    test("help on a name is shown, without colours", async () => {
      const [shown] = await run(it.kernel, "len?");
      const page = shown?.type === "display" ? String(shown.data["text/plain"]) : "";
      expect(page).toContain("number of items");
      expect(page).not.toContain("\u001b");
    });

    test("exceptions show none of our frames and none of IPython's", async () => {
      for (const code of ["1 / 0", "x = (", "await missing", "print(**{'end': 1})"]) {
        const shown = failure(await run(it.kernel, code))?.traceback.join("\n") ?? "";
        expect(shown).not.toMatch(/IPython|ipykernel|<cellwright>/);
      }
    });

    test("a message of more than a megabyte arrives, in both directions", async () => {
      const variables = { long: "ä".repeat(3_000_000), bytes: new Uint8Array(3_000_000).fill(7) };
      const events = await run(it.kernel, "display({'text/html': long}, raw=True)\nlen(bytes), long[:1]", {
        variables,
      });
      expect(result(events)).toBe("(3000000, 'ä')");
      const [shown] = events;
      expect(shown?.type === "display" && String(shown.data["text/html"]).length).toBe(3_000_000);
    });

    test("the same request runs once, however often it comes", async () => {
      // The ledger's purpose; recovery.faults.ts tests it with broken connections.
      await run(it.kernel, "runs = 0");
      const code =
        "from ipykernel.kernelapp import IPKernelApp\nkernel = IPKernelApp.instance().kernel\n" +
        "request = kernel.get_parent('shell')\nruns += 1\n" +
        "await kernel.shell_handlers['execute_request'](kernel.shell_stream, [b'x'], request)\nruns";
      expect(result(await run(it.kernel, code))).toBe("1");
    });
  });
}

describeWith("jupyterServer", "a server that limits output", (python) => {
  const remote = jupyterKernels(python, { args: quickServer.slice(0, 1) });

  test("is found out, and said once in the cell", async () => {
    const { kernel } = await remote.start();
    const events = await run(kernel, "for i in range(30): print('x' * 1_000_000)\nprint('end')");
    const said = text(events, "stderr");
    expect(said.match(/Output is missing here/g)).toHaveLength(1);
    expect(said).toContain("iopub_data_rate_limit");
    expect(said).not.toContain("IOPub");
    expect(text(events).length).toBeLessThan(30_000_000);
    expect(events.at(-1)).toMatchObject({ type: "done", status: "ok" });
  });
});

describeWith("jupyterServer", "matplotlib on a server", (python) => {
  const remote = jupyterKernels(python);

  test("figures are shown once, at the end of the cell or where show() stands", async () => {
    const { kernel } = await remote.start();
    const open = await run(kernel, "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]);");
    expect(open.map(({ type }) => type)).toEqual(["display", "done"]);
    const shown = await run(kernel, "plt.plot([1]); plt.show(); print('after')");
    expect(shown.map(({ type }) => type)).toEqual(["display", "stream", "done"]);
    const magic = await run(kernel, "%matplotlib inline\nfig, ax = plt.subplots()\nax.plot([1])\nfig");
    expect(magic.map(({ type }) => type)).toEqual(["result", "done"]);
  });
});
