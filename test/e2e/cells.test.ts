import { mkdir, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startHttp, startStdio, type TestClient, temporaryDataDir, until } from "../support/program.ts";

describe("cells that will not end by themselves", () => {
  test("an endless loop is stopped at its time limit and keeps variables", async () => {
    const client = await startStdio();
    const { session_id } = (await client.run("kept = 'still here'")).execution;
    const stopped = await client.run("while True: pass", { session_id, timeout_s: 1 });
    expect(stopped.execution.status).toBe("timeout");
    expect(stopped.text).toContain("variables are kept");
    expect((await client.run("kept", { session_id })).text).toContain("still here");
  });

  test("a loop that swallows the interrupt loses its kernel, the reply says so, and the next cell runs", async () => {
    const client = await startStdio();
    const { session_id } = (await client.run("lost = 1")).execution;
    const code = "while True:\n    try:\n        while True: pass\n    except BaseException: pass";
    const stopped = await client.run(code, { session_id, timeout_s: 1 });
    expect(stopped.execution.status).toBe("timeout");
    expect(stopped.text).toContain("Its state was lost: variables are gone");
    const next = await client.run("'lost' in dir()", { session_id });
    expect(next.text).toContain("False");
  });
});

describe("what breaks other interpreters", () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  let client: TestClient & { pid: number };
  /** A session that none of this may affect. */
  let bystander: string;
  beforeAll(async () => {
    client = await startStdio({ atEnd: (cleanUp) => cleanUps.push(cleanUp) });
    bystander = (await client.run("kept = 1")).execution.session_id;
  });
  afterAll(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp();
  });
  /** As long as the test itself: the speed of a flood is measured in the bench. */
  const patient = { wait_s: 110 };
  const alive = async () => {
    expect((await client.run("kept + 1", { session_id: bystander })).text).toContain("2");
  };

  test("100 MB printed: a short reply with both ends, and the server's memory stays flat", async () => {
    const { session_id } = (await client.run("1")).execution;
    const before = await rssMb(client.pid);
    const reply = await client.run("for i in range(1_000_000):\n    print(f'{i:099d}')", { session_id, ...patient });
    expect(reply.execution.status).toBe("ok");
    expect(JSON.stringify(reply.content).length).toBeLessThan(60_000);
    expect(reply.text).toContain(`${"0".repeat(99)}\n`);
    expect(reply.text).toContain("999999");
    expect((await rssMb(client.pid)) - before).toBeLessThan(200);
    const link = reply.content.find((block) => block.type === "resource_link");
    expect(link?.uri).toMatch(/^cell:\/\/.*\.outputs\//);
    await alive();
  }, 120_000);

  test("a million short lines", async () => {
    const reply = await client.run("for i in range(10**6): print(i)", patient);
    expect(reply.execution.status).toBe("ok");
    expect(JSON.stringify(reply.content).length).toBeLessThan(60_000);
    expect(reply.text).toContain("999999");
    await alive();
  }, 120_000);

  test.each([
    ["os._exit", "import os; os._exit(1)", "kernel_died"],
    [
      "a stack overflow in C",
      "import sys; sys.setrecursionlimit(10**9)\ndef f(): return f()\nf()",
      /error|kernel_died/,
    ],
    ["sys.exit", "import sys; sys.exit(3)", "error"],
    ["input", "input('name? ')", "error"],
    ["getpass", "import getpass; getpass.getpass()", "error"],
    ["os.system", "import os; print(os.system('echo x'))", /ok|error/],
    ["a write to fd 1", 'import os; os.write(1, b\'{"jsonrpc":"2.0"}\\n\'); 7', "ok"],
    ["a lone surrogate", "print('before'); print('\\ud800'); print('after')", "ok"],
    ["NUL and escapes", "print('a\\0b\\x1b[31mred\\x1b[0m')", "ok"],
    ["a recursive repr", "class A:\n    def __repr__(self): return repr(self)\nA()", /ok|error/],
    ["a repr that raises", "class A:\n    def __repr__(self): 1/0\nA()", /ok|error/],
    ["a syntax error", "def f(:\n  pass", "error"],
    ["an exception in a class body", "class A:\n    x = 1/0", "error"],
    ["threads", "import threading; threading.Thread(target=print).start()", "error"],
    ["subprocess", "import subprocess; subprocess.run(['ls'])", "error"],
    ["a socket", "import socket; socket.create_connection(('127.0.0.1', 80), 1)", "error"],
    ["a fork", "import os; os.fork()", "error"],
  ])("%s: an honest status, and both session and server go on", async (_, code, status) => {
    const { session_id } = (await client.run("1")).execution;
    const reply = await client.run(code, { session_id, timeout_s: 20 });
    expect(reply.execution.status).toMatch(status);
    expect(reply.isError).toBe(false);
    expect((await client.run("40 + 2", { session_id })).text).toContain("42");
    await alive();
    await client.call("close_session", { session_id, delete_files: true });
  });

  test("ten sessions at once do not mix", async () => {
    const sessions = await Promise.all(Array.from({ length: 10 }, (_, i) => client.run(`mine = ${i}`)));
    const answers = await Promise.all(
      sessions.flatMap(({ execution: { session_id } }, i) =>
        Array.from({ length: 10 }, async (_, j) => {
          const { text } = await client.run(`print('answer', mine * 1000 + ${j})`, { session_id });
          return text.includes(`answer ${i * 1000 + j}\n`);
        }),
      ),
    );
    expect(answers.filter(Boolean)).toHaveLength(100);
  }, 120_000);
});

describe("sessions live longer than the program", () => {
  test("after a restart history and files are there, and a cell says that variables are gone", async () => {
    const dataDir = temporaryDataDir();
    const before = await startStdio({ dataDir });
    const { session_id } = (
      await before.run("x = 1\nopen('kept.txt', 'w').write('kept')\nprint('hello from before')", {
        session_name: "My work",
      })
    ).execution;
    await before.close();
    const after = await startStdio({ dataDir });
    expect((await after.call("list_sessions")).text).toContain(session_id);
    expect((await after.call("read_file", { session_id, path: "kept.txt" })).text).toContain("kept");
    expect((await after.call("wait", { session_id })).text).toContain("hello from before");
    const reply = await after.run("open('kept.txt').read(), 'x' in dir()", { session_id: "My work" });
    expect(reply.text).toContain("('kept', False)");
    expect(reply.text).toMatch(/variables from before are gone/);
    expect((await after.run("1", { session_id })).text).not.toMatch(/variables from before are gone/);
  });

  test("after a crash in mid-cell the cell is in the history as of unknown outcome", async () => {
    const dataDir = temporaryDataDir();
    const before = await startHttp({ dataDir });
    const client = await before.client();
    const { session_id } = (await client.run("1")).execution;
    client.run("import time; time.sleep(60)", { session_id }).catch(() => {});
    await until(
      "the cell to run",
      async () => (await client.call("wait", { session_id, wait_s: 0 })).execution.status === "running",
    );
    await before.stop("SIGKILL");
    const after = await startStdio({ dataDir });
    expect((await after.call("wait", { session_id })).execution.status).toBe("kernel_died");
    expect((await after.run("2 + 2", { session_id })).text).toContain("4");
  });

  test("two programs on one data folder leave each other's sessions alone", async () => {
    const dataDir = temporaryDataDir();
    const [one, two] = [await startStdio({ dataDir }), await startStdio({ dataDir })];
    const { session_id } = (await one.run("x = 1")).execution;
    expect((await two.call("list_sessions")).text).toMatch(new RegExp(`${session_id}.*in use`));
    const refused = await two.run("x", { session_id });
    expect(refused.isError).toBe(true);
    expect(refused.text).toContain("session_in_use");
    expect((await one.run("x", { session_id })).text).toContain("1");
    await one.close();
    await until("the session to be free", async () => !(await two.run("1", { session_id })).isError);
  });

  test("an idle session loses its kernel, keeps its files, and the next cell reports it", async () => {
    const client = await startStdio({ args: ["--session-ttl", "1s"] });
    const { session_id } = (await client.run("x = 1; open('f.txt', 'w').write('hi')")).execution;
    await until("the session to expire", async () => /asleep/.test((await client.call("list_sessions")).text), 60_000);
    const reply = await client.run("open('f.txt').read(), 'x' in dir()", { session_id });
    expect(reply.text).toContain("('hi', False)");
    expect(reply.text).toContain("variables from before are gone");
  }, 90_000);
});

describe("the user's own files", () => {
  test("go in and out only below --files-dir, and never those that hold secrets", async () => {
    const dataDir = temporaryDataDir();
    const filesDir = join(dataDir, "mine");
    await mkdir(filesDir);
    await writeFile(join(filesDir, "data.csv"), "a,b\n1,2\n");
    await writeFile(join(filesDir, ".env"), "SECRET=1");
    await writeFile(join(dataDir, "outside.txt"), "no");
    const client = await startStdio({ dataDir, args: ["--files-dir", filesDir] });
    const { session_id } = (await client.run("1")).execution;
    expect((await client.call("import_file", { session_id, host_path: "data.csv" })).isError).toBe(false);
    expect((await client.run("open('data.csv').read()", { session_id })).text).toContain("a,b");
    for (const host_path of [".env", "../outside.txt", join(dataDir, "outside.txt"), "/etc/passwd"]) {
      const refused = await client.call("import_file", { session_id, host_path });
      expect(refused.isError).toBe(true);
    }
    await client.run("open('out.txt', 'w').write('result')", { session_id });
    const exported = await client.call("export_file", { session_id, path: "out.txt", host_path: "result.txt" });
    expect(exported.text).toContain(join(filesDir, "result.txt"));
    expect(await readFile(join(filesDir, "result.txt"), "utf8")).toBe("result");
  });

  test("a link in --workspace is never removed: without an OS sandbox, no code runs beside it", async () => {
    const dataDir = temporaryDataDir();
    const workspace = join(dataDir, "mine");
    const link = join(workspace, "bin/python");
    const refusal = expect.stringMatching(/bin\/python` is a symbolic link.*\n.*`--workspace` without symbolic links/);
    await mkdir(join(workspace, "bin"), { recursive: true });
    await symlink("/usr/bin/env", link);
    const client = await startStdio({ dataDir, args: ["--jail", "none", "--workspace", workspace] });
    expect(await client.run("1")).toMatchObject({ isError: true, text: refusal });
    expect(await readlink(link)).toBe("/usr/bin/env");

    await rm(link);
    const { session_id } = (await client.run("kept = 'still here'")).execution;
    await symlink("/usr/bin/env", link);
    expect(await client.run("kept", { session_id })).toMatchObject({ isError: true, text: refusal });
    expect(await readlink(link)).toBe("/usr/bin/env");
    await rm(link);
    expect((await client.run("kept", { session_id })).text).toContain("still here");
  });
});

async function rssMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
}
