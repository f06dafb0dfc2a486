/** A remote Jupyter server and a faulty connection to it, with the native tools. */

import { execFile } from "node:child_process";
import { expect, test } from "vitest";
import { startJupyterServer } from "../support/jupyter-server.ts";
import { programPath, startStdio, temporaryDataDir, until } from "../support/program.ts";
import { describeWith } from "../support/requirements.ts";
import { TcpProxy } from "../support/tcp-proxy.ts";
import { newSession, shared } from "./x-support.ts";

describeWith("jupyterServer", "a Jupyter server elsewhere", (python) => {
  const world = shared(async (atEnd) => {
    // Without the server's limit of a megabyte per second, which would drop what follows a large message.
    const args = ["--ZMQChannelsWebsocketConnection.iopub_data_rate_limit=1e9"];
    const server = await startJupyterServer(python, { prefix: "/user/a/", args });
    atEnd(() => server.stop());
    const proxy = await TcpProxy.to(Number(new URL(server.url).port));
    atEnd(() => proxy.close());
    return { server, proxy };
  });
  const start = (url: string, token: string, dataDir = temporaryDataDir()) =>
    startStdio({
      args: ["--kernel", "jupyter", "--structured", "--jupyter-url", url, "--jupyter-token", token],
      dataDir,
    });

  test("X-47 a wrong token is one sentence and the end of the start", async () => {
    const { server } = world();
    const args = ["--kernel", "jupyter", "--jupyter-url", server.url, "--jupyter-token", "not-the-token"];
    const left = await new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) => {
      const all = [programPath, ...args, "--data-dir", temporaryDataDir()];
      execFile(process.execPath, all, (error, stdout, stderr) => resolve({ code: error?.code ?? 0, stdout, stderr }));
    });
    expect(left).toMatchObject({ code: 1, stdout: "" });
    expect(left.stderr).toMatch(/token/);
    expect(left.stderr).not.toContain("not-the-token");
    expect(left.stderr).not.toContain("    at ");
  });

  test("X-47 a path prefix is kept, and a message of 3 MiB is read", async () => {
    const { server } = world();
    const client = await start(server.url, server.token);
    const reply = await client.run("text = 'x' * (3 * 2**20)\nprint(text)\nlen(text)");
    expect(reply.structured).toMatchObject({ status: "ok", result: String(3 * 2 ** 20) });
    expect(reply.text.length).toBeLessThan(30_000);
  });

  test("X-47 a connection that is dropped in the middle of a cell costs nothing of its result", async () => {
    const { server, proxy } = world();
    const client = await start(proxy.through(server.url), server.token);
    const session_id = await newSession(client, "import os, time\nkept = 41");
    const code =
      "print('before', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('after')\nkept + 1";
    const cell = client.run(code, { session_id });
    await until("the cell to print", async () => {
      return (await client.call("wait", { session_id, wait_s: 0 })).text.includes("before");
    });
    proxy.drop();
    await client.call("write_file", { session_id, path: "go", content: "" });
    expect((await cell).structured).toMatchObject({ status: "ok", stdout: "before\nafter\n", result: "42" });
  });

  test("X-47 after a restart of the Jupyter server the loss is reported, and the session continues", async () => {
    const home = world().server.home;
    const first = await startJupyterServer(python, { home });
    const client = await start(first.url, first.token);
    const session_id = await newSession(client, "x = 1");
    await first.kill();
    const port = Number(new URL(first.url).port);
    const second = await startJupyterServer(python, { home, port, token: first.token });
    try {
      const reply = await client.run("'x' in dir()", { session_id });
      expect(reply.structured).toMatchObject({ status: "ok", result: "False" });
      expect(reply.text).toContain("gone");
      expect((await client.run("2", { session_id })).structured).toMatchObject({ result: "2", notices: [] });
    } finally {
      await second.stop();
    }
  });
});
