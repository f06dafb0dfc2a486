import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { gatedCell, gatesOf } from "../support/gated-cell.ts";
import { freePort, startJupyterServer, type TestJupyterServer } from "../support/jupyter-server.ts";
import {
  programEnv,
  programPath,
  startHttp,
  startStdio,
  type TestClient,
  temporaryDataDir,
  until,
} from "../support/program.ts";
import { describeWith } from "../support/requirements.ts";
import { TcpProxy } from "../support/tcp-proxy.ts";

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=";

function at({ url, token }: { url: string; token: string }) {
  return { args: ["--kernel", "jupyter", "--jupyter-url", url], env: { JUPYTER_TOKEN: token } };
}

async function kernelsOf({ url, token }: TestJupyterServer): Promise<string[]> {
  const answer = await fetch(`${url}/api/kernels`, { headers: { Authorization: `token ${token}` } });
  return ((await answer.json()) as { id: string }[]).map(({ id }) => id);
}

/** Runs the program until it exits. */
function cellwright(args: string[], env: Record<string, string> = {}) {
  const all = [programPath, "--data-dir", temporaryDataDir(), ...args];
  const options = { env: programEnv(env) };
  return new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) => {
    execFile(process.execPath, all, options, (error, stdout, stderr) => {
      resolve({ code: error ? error.code : 0, stdout, stderr });
    }).stdin?.end();
  });
}

describeWith("jupyterServer", "sessions on a Jupyter server", (python) => {
  let jupyter: TestJupyterServer;
  beforeAll(async () => {
    jupyter = await startJupyterServer(python, { prefix: "/user/a/" });
  });
  afterAll(() => jupyter?.stop());

  test("a cell, a plot, an image, variables, files, bash and an interrupt", async () => {
    const proxy = await TcpProxy.to(Number(new URL(jupyter.url).port));
    onTestFinished(() => proxy.close());
    let sent = "";
    proxy.tap = (data) => {
      sent += data.toString("latin1");
    };
    const client: TestClient = await startStdio(at({ url: `${proxy.through(jupyter.url)}/`, token: jupyter.token }));

    const first = await client.run("kept = 41\nprint('hello')\nkept + 1");
    const { session_id } = first.execution;
    expect(first.text).toContain("hello");
    expect(first.text).toContain("42");
    const folder = join(jupyter.home, "cellwright", session_id);

    const plot = await client.run("import matplotlib.pyplot as plt\nplt.plot([1, 4, 9]); plt.show()", { session_id });
    expect(plot.content.filter(({ type }) => type === "image")).toHaveLength(1);

    const images = [`data:image/png;base64,${PIXEL}`];
    const image = await client.run("image_0[:4], len(image_0)", { session_id, images });
    expect(image.text).toContain(`${Buffer.from(PIXEL, "base64").length}`);
    expect((await client.run("given", { session_id, variables: { given: [1, "two"] } })).text).toContain("[1, 'two']");
    expect((await client.call("list_variables", { session_id })).text).toContain("kept");

    await client.call("write_file", { session_id, path: "data/in.txt", content: "from a tool" });
    expect((await client.run("open('data/in.txt').read()", { session_id })).text).toContain("from a tool");
    const made = await client.run("open('out.txt', 'w').write('from python');", { session_id });
    expect(made.text).toContain("out.txt");
    expect((await client.call("read_file", { session_id, path: "out.txt" })).text).toContain("from python");
    expect(await readFile(join(folder, "out.txt"), "utf8")).toBe("from python");

    const bash = (code: string) => client.run(code, { session_id, language: "bash" });
    expect((await bash("cat out.txt; greeting=hi")).text).toContain("from python");
    expect((await bash('echo "$greeting"; (exit 3)')).text).toMatch(/hi[\s\S]*exit code 3/);

    const running = await client.run("import time\nprint('in it', flush=True)\ntime.sleep(600)", {
      session_id,
      wait_s: 0.5,
    });
    expect(running.execution.status).toBe("running");
    expect((await client.call("read_file", { session_id, path: "out.txt" })).text).toContain("from python");
    expect((await client.call("interrupt", { session_id })).execution.status).toBe("interrupted");
    expect((await client.run("kept", { session_id })).text).toContain("41");

    const requests = [...sent.matchAll(/(?:GET|POST|DELETE) (\S+) HTTP\/1\.1\r\n(?:[^\r\n]+\r\n)+/g)];
    expect(requests.length).toBeGreaterThan(4);
    for (const [head, path] of requests) {
      expect(path).toMatch(/^\/user\/a\/api(\/|$)/);
      expect(path).not.toContain(jupyter.token);
      expect(head).toMatch(new RegExp(`^authorization: token ${jupyter.token}\r$`, "im"));
    }
    expect(sent).toContain('{"name":"python3"}');
    await client.close();
    await until("the kernels to be gone", async () => (await kernelsOf(jupyter)).length === 0);
  });

  test("a crash loses nothing: the next program takes over the kernel and the cell that ran", async () => {
    const dataDir = temporaryDataDir();
    const first = await startHttp({ ...at(jupyter), dataDir });
    const before = await first.client();
    const { session_id } = (await before.run("kept = 41")).execution;
    const gates = gatesOf(join(jupyter.home, "cellwright", session_id));
    await before.run("marked=kept-too", { session_id, language: "bash" });
    const running = await before.run(gatedCell, { session_id, wait_s: 0 });
    expect(running.execution.status).toBe("running");
    await gates.begun();
    await first.stop("SIGKILL");
    gates.open("go");
    const second = await startHttp({ ...at(jupyter), dataDir });
    const after = await second.client();
    gates.open("end");
    const { execution_id } = running.execution;
    const rest = await after.call("wait", { session_id, execution_id, wait_s: 30 });
    expect(rest.execution).toMatchObject({ status: "ok", execution_id });
    for (const word of ["before", "meanwhile", "after", "42"]) expect(rest.text).toContain(word);
    const next = await after.run("kept", { session_id });
    expect(next.text).toContain("41");
    expect(next.text).not.toContain("fresh kernel");
    expect((await after.run("echo $marked", { session_id, language: "bash" })).text).toContain("kept-too");
    const ours = await Promise.all(
      ["remote-kernel.json", "remote-kernel-bash.json"].map(async (name) => {
        const record = await readFile(join(dataDir, "sessions", session_id, "run", name), "utf8");
        return (JSON.parse(record) as { kernelId: string }).kernelId;
      }),
    );
    await second.stop();
    // The helper of a program that may still be alive is left alone for a minute.
    const left = await kernelsOf(jupyter);
    expect(left.filter((id) => ours.includes(id))).toEqual([]);
    expect(left.length).toBeLessThan(2);
  });

  test("the death of a kernel is reported once, and the next cell has a fresh one", async () => {
    const client = await startStdio(at(jupyter));
    const { session_id } = (await client.run("kept = 41")).execution;
    // Its output has arrived: before that, some of it is only in the dying process.
    const heard = ({ message = "" }) => {
      if (message.includes("last words")) void client.call("write_file", { session_id, path: "heard", content: "" });
    };
    const code = `import os, time
print('last words', flush=True)
while not os.path.exists('heard'): time.sleep(0.05)
os._exit(3)`;
    const died = await client.call("execute_code", { code, session_id }, { onprogress: heard });
    expect(died.execution.status).toBe("kernel_died");
    expect(died.text).toContain("last words");
    const next = await client.run("kept", { session_id });
    expect(next.text).toContain("NameError");
    expect((await client.run("2 + 2", { session_id })).text).not.toMatch(/fresh|lost/);
  });

  test("a wrong token, a wrong address and no server are one sentence and exit 1", async () => {
    const { url, token } = jupyter;
    const port = await freePort();
    const kernel = ["--kernel", "jupyter", "--jupyter-url"];
    const wrong = [
      { args: [...kernel, url], env: { JUPYTER_TOKEN: "wrong-token-0123" }, says: "refuses the token (403)" },
      { args: [...kernel, url], env: {}, says: "requires a token, and none is set (403)" },
      { args: [...kernel, `${url}/lab`], env: { JUPYTER_TOKEN: token }, says: "does not answer as a Jupyter server" },
      { args: [...kernel, `http://127.0.0.1:${port}`], env: {}, says: "cannot be reached: nothing listens there" },
    ];
    for (const { args, env, says } of wrong) {
      const { code, stdout, stderr } = await cellwright(args, env as Record<string, string>);
      expect(code).toBe(1);
      expect(stdout).toBe("");
      expect(stderr).toContain(says);
      expect(stderr.trim().split("\n")).toHaveLength(1);
      expect(stderr).not.toContain("wrong-token-0123");
    }
  });

  test("a server that cannot be used is a warning while another one can", async () => {
    const { args, env } = at(jupyter);
    const broken = `http://127.0.0.1:${await freePort()}`;
    const client = await startStdio({ args: [...args, "--jupyter-url", broken], env });
    expect((await client.run("6 * 7")).text).toContain("42");
    expect(client.stderr()).toContain(`${broken} cannot be reached`);
  });
});
