import { existsSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { startJupyterServer } from "../../../support/jupyter-server.ts";
import { descendants, isAlive, type Reply, startStdio, until } from "../../../support/program.ts";
import { describeWith } from "../../../support/requirements.ts";
import { rounds as roundsOf } from "../../../support/rounds.ts";

const rounds = roundsOf(50, 5);
const LOSS = /fresh kernel|variables (from before )?are (gone|lost)/g;

/** How often a reply reports lost state. */
function losses({ text }: Reply): number {
  return [...text.matchAll(LOSS)].length > 0 ? 1 : 0;
}

/** Leaves a mark each time it runs, and never ends. */
function endless(round: number): string {
  return `import time\nwith open('runs-${round}', 'a') as file: file.write('x')\nprint('begun', flush=True)\ntime.sleep(600)`;
}

/**
 * Whether a process leads its own session, as kernels do. A fork that is killed before that is not a kernel yet: the
 * Jupyter server then takes its own process group for the kernel's, and kills itself when it ends that kernel.
 */
function leadsSession(pid: number): boolean {
  try {
    const [, , , session] = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    return Number(session) === pid;
  } catch {
    return false;
  }
}

describeWith("jupyterServer", "kill -9 in mid-cell", (python) => {
  const program = ({ url, token }: { url: string; token: string }) =>
    startStdio({
      args: ["--kernel", "jupyter", "--jupyter-url", url],
      env: { JUPYTER_TOKEN: token },
    });

  test(`of the kernel, ${rounds} times: no hang, and its loss is told once`, { timeout: rounds * 60_000 }, async () => {
    const jupyter = await startJupyterServer(python, { args: ["--KernelRestarter.time_to_dead=0.5"] });
    onTestFinished(() => jupyter.stop());
    const client = await program(jupyter);
    const { session_id } = (await client.run("1")).execution;
    for (let round = 0; round < rounds; round += 1) {
      const { text } = await client.run("import os\nkept = 1\nprint(f'pid={os.getpid()}')", { session_id });
      const pid = Number(/pid=(\d+)/.exec(text)?.[1]);
      const running = client.run(endless(round), { session_id });
      const mark = join(jupyter.home, "cellwright", session_id, `runs-${round}`);
      await until("the cell to begin", () => existsSync(mark) && statSync(mark).size > 0);
      await pause((round / rounds) * 200);
      process.kill(pid, "SIGKILL");
      const died = await running;
      expect(died.execution.status).toBe("kernel_died");
      const next = await client.run("'kept' in globals()", { session_id });
      expect(next.text).toContain("False");
      expect(losses(died) + losses(next)).toBe(1);
      expect(losses(await client.run("2", { session_id }))).toBe(0);
      expect(readFileSync(mark, "utf8")).toBe("x");
    }
  });

  test(`of the kernel at other moments, ${rounds} times each: a reply in every case`, {
    timeout: rounds * 90_000,
  }, async () => {
    const jupyter = await startJupyterServer(python, { args: ["--KernelRestarter.time_to_dead=0.5"] });
    onTestFinished(() => jupyter.stop());
    const client = await program(jupyter);
    const pidOf = async (session_id: string) => {
      const { text } = await client.run("import os\nprint(f'pid={os.getpid()}')", { session_id });
      return Number(/pid=(\d+)/.exec(text)?.[1]);
    };
    const kernels = () => descendants(jupyter.pid).filter(leadsSession);
    for (let round = 0; round < rounds; round += 1) {
      // At its start, in the middle of the handshake: it is started again, or the call reports the failure.
      const before = new Set(kernels());
      const starting = client.run("print('hello')");
      await until("a kernel to be started", () => kernels().some((pid) => !before.has(pid)));
      await pause((round / rounds) * 1_000);
      for (const pid of kernels()) if (!before.has(pid)) process.kill(pid, "SIGKILL");
      const started = await starting;
      expect(started.isError || started.text.includes("hello") || losses(started) > 0, started.text).toBe(true);
      if (!started.isError) await client.call("close_session", { session_id: started.execution.session_id });

      // Between cells.
      const fresh = await client.run("kept = 1");
      expect(fresh.isError, fresh.text).toBe(false);
      const { session_id } = fresh.execution;
      process.kill(await pidOf(session_id), "SIGKILL");
      const next = await client.run("'kept' in globals()", { session_id });
      const after = await client.run("'kept' in globals()", { session_id });
      expect(after.text).toContain("False");
      expect(losses(next) + losses(after)).toBe(1);

      // While it is being interrupted.
      const pid = await pidOf(session_id);
      const running = client.run(endless(round), { session_id });
      const mark = join(jupyter.home, "cellwright", session_id, `runs-${round}`);
      await until("the cell to begin", () => existsSync(mark) && statSync(mark).size > 0);
      const interrupted = client.call("interrupt", { session_id });
      process.kill(pid, "SIGKILL");
      expect(["kernel_died", "interrupted"]).toContain((await running).execution.status);
      await interrupted;
      expect((await client.run("6 * 7", { session_id })).text).toContain("42");

      // While it is being ended.
      const last = await pidOf(session_id);
      const closed = client.call("close_session", { session_id });
      if (isAlive(last)) process.kill(last, "SIGKILL");
      expect((await closed).isError).toBe(false);
    }
  });

  test(`of the server, ${rounds} times: no hang, and the loss is told once`, { timeout: rounds * 60_000 }, async () => {
    let jupyter = await startJupyterServer(python);
    const { home, token } = jupyter;
    const port = Number(new URL(jupyter.url).port);
    onTestFinished(async () => {
      await jupyter.stop();
      rmSync(home, { recursive: true, force: true });
    });
    const client = await program(jupyter);
    const { session_id } = (await client.run("1")).execution;
    for (let round = 0; round < rounds; round += 1) {
      await client.run("kept = 1", { session_id });
      const running = client.run(endless(round), { session_id });
      const mark = join(home, "cellwright", session_id, `runs-${round}`);
      await until("the cell to begin", () => existsSync(mark) && statSync(mark).size > 0);
      await pause((round / rounds) * 200);
      await jupyter.kill();
      jupyter = await startJupyterServer(python, { home, token, port });
      const died = await running;
      expect(died.execution.status).toBe("kernel_died");
      expect(died.text).toContain("Jupyter server");
      const next = await client.run("'kept' in globals()", { session_id });
      expect(next.text).toContain("False");
      expect(losses(died) + losses(next)).toBe(1);
      expect(losses(await client.run("2", { session_id }))).toBe(0);
      expect(readFileSync(mark, "utf8")).toBe("x");
    }
  });
});
