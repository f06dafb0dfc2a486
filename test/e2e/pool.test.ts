import { dirname } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePorts } from "../support/free-ports.ts";
import { type PoolProgram, startPoolProgram } from "../support/pool-program.ts";
import { bearer, descendants, isAlive, startHttp, startStdio, type TestClient, until } from "../support/program.ts";
import { testPython } from "../support/pythons.ts";
import { describeWith } from "../support/requirements.ts";

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg==";

interface Status {
  ports: Record<string, { status: string; active_sessions: number; error_count: number; last_used: string }>;
  total_sessions: number;
}

const inFront = (urls: string[]) => ["--kernel", "pool", ...urls.flatMap((url) => ["--pool-url", url])];

const post = (token: string | undefined, body: object) => ({
  method: "POST",
  headers: { "content-type": "application/json", ...bearer(token) },
  body: JSON.stringify(body),
});

async function readStatus(client: TestClient): Promise<Status> {
  const { contents } = await client.raw.readResource({ uri: "balancer://status" });
  const [content] = contents as { text: string }[];
  return JSON.parse(content?.text ?? "");
}

/** The port of the one running cell, once it was sent: before that it can be stopped without a loss. */
async function runningOn(client: TestClient): Promise<string> {
  let found: string | undefined;
  await until("the cell to run", async () => {
    const { ports } = await readStatus(client);
    found = Object.keys(ports).find((name) => (ports[name]?.active_sessions ?? 0) > 0);
    return found !== undefined;
  });
  return found ?? "";
}

async function portOf(client: TestClient, session_id: string): Promise<string> {
  const cell = client.run("import time\ntime.sleep(1)", { session_id });
  const port = await runningOn(client);
  await cell;
  return port;
}

async function answers(port: number): Promise<boolean> {
  const refused = (error: { cause?: { code?: string } }) => error.cause?.code === "ECONNREFUSED";
  return fetch(`http://127.0.0.1:${port}/healthz`).then(
    () => true,
    (error) => !refused(error),
  );
}

describe("a pool of WASM sandboxes, and Cellwright in front of it", () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  const atEnd = (cleanUp: () => void | Promise<void>) => void cleanUps.unshift(cleanUp);
  let pool: PoolProgram;
  let client: TestClient;

  const isReplaced = (port: number, victim: number) => {
    try {
      return pool.backend(port) !== victim;
    } catch {
      return false;
    }
  };

  beforeAll(async () => {
    pool = await startPoolProgram({ count: 2, atEnd });
    client = await startStdio({ args: inFront(pool.urls), env: pool.env, atEnd });
  });
  afterAll(async () => {
    for (const cleanUp of cleanUps) await cleanUp();
  });

  test("cells, state, errors, variables and images go through", async () => {
    const first = await client.run("print('out')\nx = (i for i in range(3))\n6 * 7");
    const { session_id } = first.execution;
    expect(first.execution.status).toBe("ok");
    expect(first.text).toContain("out");
    expect(first.text).toContain("42");
    expect((await client.run("next(x), next(x)", { session_id })).text).toContain("(0, 1)");
    const failed = await client.run("def broken():\n    return 1 / 0\nbroken()", { session_id });
    expect(failed.execution.status).toBe("error");
    expect(failed.text).toContain("ZeroDivisionError: division by zero");
    expect(failed.text).toContain("return 1 / 0");
    const given = { session_id, variables: { word: "a'b\"\n\u{1f600}" }, images: [PNG] };
    const same = `word == 'a\\'b"\\n\\U0001f600', image_0[:4], image == image_0`;
    expect((await client.run(same, given)).text).toContain("(True, b'\\x89PNG', True)");
    expect((await client.run("sorted(n for n in globals() if n[0] != '_')", { session_id })).text).toContain(
      "['broken', 'image', 'image_0', 'word', 'x']",
    );
  });

  test("a picture comes out", async () => {
    const code = `import base64
class Picture:
    def _repr_png_(self): return base64.b64decode("${PNG}")
display(Picture())`;
    const { content } = await client.run(code);
    expect(content.filter(({ type }) => type === "image")).toHaveLength(1);
  });

  test("a cell that takes too long is stopped there and keeps what it had", async () => {
    const { session_id } = (await client.run("kept = 41")).execution;
    const slow = await client.run("print('a')\nkept += 1\nimport time\ntime.sleep(60)", { session_id, timeout_s: 1 });
    expect(slow.text).toContain("TimeOutError: code execution timed out");
    expect(slow.text).toContain("a");
    expect((await client.run("kept", { session_id })).text).toContain("42");
  });

  test("sessions are spread, and each stays where it is", async () => {
    const [one, two] = [await client.run("mine = 1"), await client.run("mine = 2")].map(
      ({ execution }) => execution.session_id,
    ) as [string, string];
    const places = [await portOf(client, one), await portOf(client, two)];
    expect(new Set(places).size).toBe(2);
    expect([await portOf(client, one), await portOf(client, two)]).toEqual(places);
    expect((await client.run("mine", { session_id: one })).text).toContain("1");
    const { ports, total_sessions } = await readStatus(client);
    expect(Object.keys(ports)).toEqual(pool.ports.map(String));
    for (const port of Object.values(ports)) {
      expect(port).toMatchObject({ status: "idle", active_sessions: 0, error_count: 0 });
      expect(Date.parse(port.last_used)).not.toBeNaN();
    }
    expect(total_sessions).toBeGreaterThanOrEqual(2);
  });

  test("two cells of one session at once run in order", async () => {
    const { session_id } = (await client.run("seen = []")).execution;
    await Promise.all(["1", "2", "3"].map((n) => client.run(`seen.append(${n})`, { session_id })));
    expect((await client.run("seen", { session_id })).text).toContain("[1, 2, 3]");
  });

  test("a cell that is cancelled is stopped on its sandbox too", async () => {
    const { session_id } = (await client.run("1")).execution;
    await client.run("while True: pass", { session_id, wait_s: 0 });
    await runningOn(client);
    const stopped = await client.call("interrupt", { session_id });
    expect(stopped.execution.status).toBe("interrupted");
    expect(stopped.text).toContain("state was lost");
    expect((await client.run("2 + 2", { session_id })).text).toContain("4");
  });

  test("files and shells are refused in a sentence", async () => {
    const { session_id } = (await client.run("1")).execution;
    const listed = await client.call("list_files", { session_id });
    expect([listed.isError, listed.text]).toEqual([true, expect.stringContaining("sandbox pool")]);
    const shell = await client.run("ls", { session_id, language: "bash" });
    expect([shell.isError, shell.text]).toEqual([true, expect.stringContaining("Python only")]);
  });

  test("the status is a resource that is listed", async () => {
    const { resources } = await client.raw.listResources();
    expect(resources).toContainEqual(expect.objectContaining({ uri: "balancer://status" }));
  });

  test("a sandbox killed between cells is started again, and the next reply tells that variables are gone", async () => {
    const { session_id } = (await client.run("lost = 1")).execution;
    const port = Number(await portOf(client, session_id));
    const victim = pool.backend(port);
    process.kill(victim, "SIGKILL");
    // The last thread closes the connections a moment after the process looks dead.
    await until("the end of it", async () => !(await answers(port)) || isReplaced(port, victim));
    const next = await client.run("'lost' in globals()", { session_id });
    expect(next.text).toContain("False");
    expect(next.text).toContain("variables from before are gone");
    const after = await client.run("'lost' in globals()", { session_id });
    expect(after.text).not.toContain("are gone");
    await until("another one", () => isReplaced(port, victim));
    expect(pool.stderr()).toContain(`port ${port} exited (SIGKILL); restarting it`);
  });

  test("a sandbox that was killed and is back has no variables, and its reply says so", async () => {
    const { session_id } = (await client.run("lost = 1")).execution;
    const port = Number(await portOf(client, session_id));
    process.kill(pool.backend(port), "SIGKILL");
    await until(
      "it to be back",
      async () => {
        const response = await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined);
        return response?.ok === true;
      },
      60_000,
    );
    const next = await client.run("'lost' in globals()", { session_id });
    expect(next.text).toContain("False");
    expect(next.text).toContain("variables from before are gone");
  });
});

describe("Cellwright as balancer and sandbox at once", () => {
  test("answers /jupyter_sandbox, /status and /drain", async () => {
    const pool = await startPoolProgram({ count: 2 });
    const front = await startHttp({ args: inFront(pool.urls), env: pool.env });
    const send = async (path: string, body?: object) => {
      const request = body ? post(front.token, body) : { headers: front.headers };
      return (await (await fetch(new URL(path, front.url), request)).json()) as never;
    };
    const cell = (session_id: string, code: string) =>
      send("/jupyter_sandbox", { session_id, code, timeout: 60 }) as Promise<{
        status: string;
        error?: string;
        output: { stdout: string; stderr: string; result?: string };
      }>;
    expect(((await send("/status")) as Status).ports[String(pool.ports[0])]).toEqual({
      status: "idle",
      active_sessions: 0,
      error_count: 0,
      last_used: "never",
    });
    expect(await cell("work", "x = [1, 2, 3]\nprint('ok')\nlen(x)")).toMatchObject({
      status: "success",
      output: { stdout: "ok\n", stderr: "", result: "3" },
    });
    expect((await cell("work", "print(sum(x))")).output.stdout).toBe("6\n");
    expect(await cell("other", "x")).toMatchObject({
      status: "error",
      error: "NameError: name 'x' is not defined",
      output: { stderr: expect.stringContaining("Traceback") },
    });
    expect(((await send("/status")) as Status).total_sessions).toBe(2);

    const [drained] = pool.ports;
    expect(
      ((await send("/drain", { backend: drained, draining: true })) as Status).ports[String(drained)]?.status,
    ).toBe("draining");
    expect((await cell("work", "print(sum(x))")).output.stdout).toBe("6\n");
    const before = ((await send("/status")) as Status).ports[String(drained)]?.last_used;
    for (const name of ["new 1", "new 2"]) expect((await cell(name, "1")).status).toBe("success");
    expect(((await send("/status")) as Status).ports[String(drained)]?.last_used).toBe(before);

    expect(await send("/clear_session", { session_id: "work" })).toEqual({ status: "success" });
    expect((await cell("work", "x")).error).toBe("NameError: name 'x' is not defined");
    const client = await front.client();
    expect((await client.run("1 + 1")).text).toContain("2");
  });
});

describe("a sandbox that wants a token", () => {
  test("is shown --pool-token, and refuses without it", async () => {
    const secret = "a-s3cret-of-a-sandbox";
    const sandbox = await startHttp({ args: ["--kernel", "wasm"], env: { CELLWRIGHT_AUTH_TOKEN: secret } });
    const { origin } = new URL(sandbox.url);
    const shown = await startStdio({ args: inFront([origin]), env: { CELLWRIGHT_POOL_TOKEN: secret } });
    expect((await shown.run("6 * 7")).text).toContain("42");
    const without = await startStdio({ args: inFront([origin]) });
    const refused = await without.run("6 * 7");
    expect(refused.text).toContain("HTTP 401");
    expect(refused.text).not.toContain(secret);
  });
});

describe("`cellwright pool`", () => {
  test("leaves nothing behind, whether it is asked to end or killed", async () => {
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      const pool = await startPoolProgram({ count: 2 });
      const backends = pool.ports.map(pool.backend);
      const cell = post(pool.token, { code: "1", timeout: 60 });
      expect((await fetch(`${pool.urls[0]}/jupyter_sandbox`, cell)).status).toBe(200);
      const all = [...backends, ...backends.flatMap(descendants)];
      process.kill(pool.pid, signal);
      await until("all of them to end", () => all.every((pid) => !isAlive(pid)), 30_000);
    }
  });

  test("ends with a sentence when a port is taken", async () => {
    const first = await startPoolProgram({ count: 1 });
    const [free] = await freePorts(1);
    await expect(
      startPoolProgram({ count: 1, args: ["--kernel", "wasm", "--ports", `${first.ports[0]},${free}`] }),
    ).rejects.toThrow(/exit 1: .*is in use by another program/s);
  });
});

describeWith("localKernels", "a pool of local sandboxes", () => {
  test("plots come out once, with or without show", async () => {
    const local = ["--kernel", "local", "--env", dirname(dirname(testPython("managed")))];
    const pool = await startPoolProgram({ count: 1, args: local });
    const client = await startStdio({ args: inFront(pool.urls), env: pool.env });
    const { session_id, status } = (await client.run("import matplotlib.pyplot as plt")).execution;
    expect(status).toBe("ok");
    for (const code of ["plt.plot([1, 2, 3])", "plt.plot([3, 2, 1])\nplt.show()"]) {
      const { content } = await client.run(code, { session_id });
      expect(
        content.filter(({ type }) => type === "image"),
        code,
      ).toHaveLength(1);
    }
    const documented = {
      session_id: "my_session_123",
      code: "print('Hello World')\nimport matplotlib.pyplot as plt\nplt.plot([1,2,3])",
      timeout: 30,
    };
    const response = await fetch(`${pool.urls[0]}/jupyter_sandbox`, post(pool.token, documented));
    const reply = (await response.json()) as { output: { images: string[] } };
    expect(reply).toMatchObject({
      status: "success",
      execution_time: expect.any(Number),
      output: { stdout: "Hello World\n" },
    });
    expect(reply.output.images).toHaveLength(1);
    expect(
      Buffer.from(reply.output.images[0] ?? "", "base64")
        .subarray(1, 4)
        .toString(),
    ).toBe("PNG");
    const command = post(pool.token, { code: "!echo hi", timeout: 30 });
    const shell = await fetch(`${pool.urls[0]}/jupyter_sandbox`, command);
    expect(await shell.json()).toMatchObject({ status: "success", output: { stdout: "hi\n" } });
  });
});
