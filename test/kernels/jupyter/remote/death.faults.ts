import { execFileSync } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { startJupyterServer } from "../../../support/jupyter-server.ts";
import { type Reply, startStdio } from "../../../support/program.ts";
import { describeWith } from "../../../support/requirements.ts";
import { rounds as roundsOf } from "../../../support/rounds.ts";

const rounds = roundsOf(50, 5);
const LOSS = /fresh kernel|variables (from before )?are (gone|lost)/g;

/** How often a reply says that state was lost. */
function losses({ text }: Reply): number {
  return [...text.matchAll(LOSS)].length > 0 ? 1 : 0;
}

describeWith("jupyterServer", "kill -9 in mid-cell", (python) => {
  const program = ({ url, token }: { url: string; token: string }) =>
    startStdio({
      args: ["--kernel", "jupyter", "--jupyter-url", url, "--warm", "0"],
      env: { JUPYTER_TOKEN: token },
    });

  test(`of the kernel, ${rounds} times: no hang, and its loss is told once`, { timeout: rounds * 30_000 }, async () => {
    const jupyter = await startJupyterServer(python, { args: ["--KernelRestarter.time_to_dead=0.5"] });
    onTestFinished(() => jupyter.stop());
    const client = await program(jupyter);
    const { session_id } = (await client.run("1")).execution;
    for (let round = 0; round < rounds; round += 1) {
      const { text } = await client.run("import os, time\nkept = 1\nprint(f'pid={os.getpid()}')", { session_id });
      const pid = Number(/pid=(\d+)/.exec(text)?.[1]);
      const running = client.run("print('begun', flush=True)\ntime.sleep(600)", { session_id });
      await pause((round / rounds) * 200);
      process.kill(pid, "SIGKILL");
      const died = await running;
      expect(died.execution.status).toBe("kernel_died");
      const next = await client.run("'kept' in globals()", { session_id });
      expect(next.text).toContain("False");
      expect(losses(died) + losses(next)).toBeGreaterThan(0);
      expect(losses(await client.run("2", { session_id }))).toBe(0);
    }
  });

  test(`of the server, ${rounds} times: no hang, and the loss is told once`, { timeout: rounds * 60_000 }, async () => {
    let jupyter = await startJupyterServer(python);
    const { home, token } = jupyter;
    const port = Number(new URL(jupyter.url).port);
    onTestFinished(async () => {
      await jupyter.stop();
      execFileSync("rm", ["-rf", home]);
    });
    const client = await program(jupyter);
    const { session_id } = (await client.run("1")).execution;
    for (let round = 0; round < rounds; round += 1) {
      await client.run("kept = 1; open('runs.txt', 'a').write('x');", { session_id });
      const running = client.run("import time\nprint('begun', flush=True)\ntime.sleep(600)", { session_id });
      await pause((round / rounds) * 300);
      await jupyter.kill();
      jupyter = await startJupyterServer(python, { home, token, port });
      const died = await running;
      expect(died.execution.status).toBe("kernel_died");
      expect(died.text).toContain("Jupyter server");
      const next = await client.run("'kept' in globals(), len(open('runs.txt').read())", { session_id });
      expect(next.text).toContain(`(False, ${round + 1})`);
      expect(losses(died) + losses(next)).toBeGreaterThan(0);
      expect(losses(await client.run("2", { session_id }))).toBe(0);
    }
  });
});
