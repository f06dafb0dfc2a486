import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { failedWith } from "../../src/system-error.ts";
import { until } from "./until.ts";

export interface TestJupyterServer {
  /** Without the token. */
  url: string;
  token: string;
  /** The home folder of its user, and the root of its notebooks. */
  home: string;
  pid: number;
  /** Kills it, without a chance to clean up. */
  kill(): Promise<void>;
  stop(): Promise<void>;
}

export interface JupyterServerSettings {
  /** A path prefix such as `/user/a/`. */
  prefix?: string;
  /** Additional settings, such as `--ZMQChannelsWebsocketConnection.iopub_data_rate_limit=1e9`. */
  args?: string[];
  /** To restart it in the same place. */
  port?: number;
  home?: string;
  token?: string;
}

/** A real Jupyter server, run by a Python that has one. Resolves when it answers. */
export async function startJupyterServer(
  python: string,
  { prefix = "/", args = [], ...settings }: JupyterServerSettings = {},
): Promise<TestJupyterServer> {
  const home = settings.home ?? (await mkdtemp(join(tmpdir(), "cw-jupyter-")));
  const token = settings.token ?? randomBytes(16).toString("hex");
  const port = settings.port ?? (await freePort());
  const stubs = join(home, ".stubs");
  await mkdir(stubs, { recursive: true });
  // Optional, and two thirds of the server's start time.
  await writeFile(join(stubs, "rfc3987_syntax.py"), "raise ImportError\n");
  const child = spawn(
    python,
    [
      "-m",
      "jupyter_server",
      "--no-browser",
      "--allow-root",
      "--ServerApp.ip=127.0.0.1",
      `--ServerApp.port=${port}`,
      "--ServerApp.port_retries=0",
      `--ServerApp.base_url=${prefix}`,
      `--ServerApp.root_dir=${home}`,
      "--ServerApp.terminals_enabled=False",
      ...args,
    ],
    {
      // Not on the command line, which every user can read.
      env: { PATH: process.env.PATH, HOME: home, PYTHONPATH: stubs, JUPYTER_TOKEN: token, LANG: "C.UTF-8" },
      stdio: ["ignore", "ignore", "pipe"],
      cwd: home,
      detached: true,
    },
  );
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text) => {
    said = (said + text).slice(-4_000);
  });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const url = `http://127.0.0.1:${port}${prefix.replace(/\/$/, "")}`;
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    await exited;
  };
  await until(
    "the Jupyter server to answer",
    async () => {
      if (child.exitCode !== null) throw new Error(`The Jupyter server did not start:\n${said}`);
      const headers = { Authorization: `token ${token}` };
      const answer = await fetch(`${url}/api/kernels`, { headers }).catch(() => undefined);
      return answer?.ok === true;
    },
    110_000,
  );
  return {
    url,
    token,
    home,
    pid: child.pid ?? 0,
    kill: () => end("SIGKILL"),
    async stop() {
      const backstop = setTimeout(() => child.kill("SIGKILL"), 8_000);
      await end("SIGTERM");
      clearTimeout(backstop);
      try {
        // Remains of kernels.
        process.kill(-(child.pid ?? 0), "SIGKILL");
      } catch {
        // There were none.
      }
      // A kernel whose server was killed ends by itself, soon, and may write there until then.
      if (!settings.home) await until("its home to be removed", () => removeUnlessGrowing(home));
    },
  };
}

async function removeUnlessGrowing(folder: string): Promise<boolean> {
  try {
    await rm(folder, { recursive: true, force: true });
    return true;
  } catch (error) {
    if (failedWith(error, "ENOTEMPTY")) return false;
    throw error;
  }
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
