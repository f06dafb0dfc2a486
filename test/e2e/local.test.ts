import { execFile, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { bareEnv } from "../kernels/local/packages/session-packages.ts";
import { wheel } from "../kernels/wasm/packages/wheels.ts";
import { gatedCell, gatesOf } from "../support/gated-cell.ts";
import { processesOf } from "../support/processes.ts";
import {
  type HttpProgram,
  programEnv,
  programPath,
  startHttp,
  startStdio,
  type TestClient,
  temporaryDataDir,
  until,
} from "../support/program.ts";
import { testPython } from "../support/pythons.ts";
import { describeWith, hasNamespaces } from "../support/requirements.ts";

const environment = dirname(dirname(testPython("managed")));
const local = ["--kernel", "local", "--env", environment];
const newNamespace = ["--pid", "--fork", "--mount-proc"];
const canMakeNamespace = spawnSync("unshare", [...newNamespace, "true"]).status === 0;

describeWith("localKernels", "local Python and bash", () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  let client: TestClient & { dataDir: string };
  beforeAll(async () => {
    client = await startStdio({ args: local, atEnd: (cleanUp) => cleanUps.unshift(cleanUp) });
  });
  afterAll(async () => {
    for (const cleanUp of cleanUps) await cleanUp();
  });

  test("the last output of a cell that ends its own process is shown, each time", async () => {
    let session_id: string | undefined;
    for (let round = 0; round < 12; round += 1) {
      const code = `import os\nprint('words ${round}', flush=True)\nos._exit(1)`;
      const reply = await client.run(code, session_id ? { session_id } : {});
      session_id = reply.execution.session_id;
      expect(reply.execution.status).toBe("kernel_died");
      expect(reply.text).toContain(`words ${round}`);
    }
  });

  test("a session keeps its state, says where it runs, and is behind walls", async () => {
    const first = await client.run("import os\nkept = 41\nos.getcwd()");
    const { session_id } = first.execution;
    expect(first.text).toContain("Python 3");
    expect(first.text).toContain("/workspace");
    expect((await client.run("kept + 1", { session_id })).text).toContain("42");
    const probe = "import socket\nsocket.create_connection(('198.51.100.1', 80), 2)";
    expect((await client.run(probe, { session_id })).text).toMatch(hasNamespaces() ? /unreachable/ : /not supported/);
    expect((await client.call("list_sessions")).text).toContain("Python 3");
  });

  test("Python and bash share the folder, each with its own state", async () => {
    const { session_id } = (await client.run("open('a.txt', 'w').write('from python')")).execution;
    const bash = (code: string) => client.run(code, { session_id, language: "bash" });
    expect((await bash("cat a.txt; greeting=hello; cd /tmp")).text).toContain("from python");
    expect((await bash('echo "$greeting in $PWD"')).text).toContain("hello in /tmp");
    const failed = await bash("ls /nowhere; exit_code() { return 3; }; exit_code");
    expect(failed.text).toContain("exit code 3");
    expect(failed.text).toContain("/nowhere");
    await bash(`echo from bash > ${hasNamespaces() ? "/workspace" : "$OLDPWD"}/b.txt`);
    expect((await client.run("open('b.txt').read()", { session_id })).text).toContain("from bash");
  });

  test("a plot is a picture, once", async () => {
    const plot = "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.title('squares')";
    const { content } = await client.run(plot);
    expect(content.filter(({ type }) => type === "image")).toHaveLength(1);
  });

  test("a DataFrame is text for the model", async () => {
    const { text } = await client.run("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})");
    expect(text).toMatch(/a\s+b/);
    expect(text).not.toContain("<table");
  });

  test("variables can be seen while a cell runs", async () => {
    const { session_id } = (await client.run("import numpy as np\nmatrix = np.zeros((3, 4))")).execution;
    await client.run("import time\nopen('begun', 'w').close()\ntime.sleep(600)", { session_id, wait_s: 0 });
    await gatesOf(join(client.dataDir, "sessions", session_id, "workspace")).begun();
    const seen = await client.call("list_variables", { session_id });
    expect(seen.text).toContain("matrix");
    expect(seen.text).toContain("3");
    expect((await client.call("interrupt", { session_id })).execution.status).toBe("interrupted");
    expect((await client.run("matrix.shape", { session_id })).text).toContain("(3, 4)");
  });

  test("another environment for a session that has one is ignored, and that is said", async () => {
    const { session_id } = (await client.run("1")).execution;
    const again = await client.run("2", { session_id, env: "another" });
    expect(again.execution.status).toBe("ok");
    expect(again.text).toContain("was ignored");
  });

  test("an unknown environment is an error that says what to do", async () => {
    const reply = await client.run("1", { env: "nowhere" });
    expect(reply.isError).toBe(true);
    expect(reply.text).toContain("nowhere");
    expect(reply.text).toContain("list_environments");
  });

  test("an unknown environment is an error for a shell, too, which otherwise needs none", async () => {
    const reply = await client.run("echo hello", { language: "bash", env: "nowhere" });
    expect(reply.isError).toBe(true);
    expect(reply.text).toContain("There is no environment `nowhere`");
    expect((await client.run("echo hello", { language: "bash" })).text).toContain("hello");
  });

  test("input() is refused with a sentence if the client cannot ask the user", async () => {
    const { text, execution } = await client.run("input('Your name? ')");
    expect(execution.status).toBe("error");
    expect(text).toContain("variables");
  });

  // The process ids of the first one's zygote are invalid in the second: a session forked from it was never ready.
  test.skipIf(!canMakeNamespace)(
    "a program in another process namespace works with the same data folder (needs the right to make one)",
    async () => {
      await client.run("'the zygote is there'");
      const command = [process.execPath, programPath, "run", ...local, "--data-dir", client.dataDir, "-c", "6 * 7"];
      const inside = await promisify(execFile)("unshare", [...newNamespace, ...command], { env: programEnv({}) });
      expect(inside.stdout).toBe("42\n");
    },
  );

  test("list_environments shows the default one", async () => {
    const { text } = await client.call("list_environments");
    expect(text).toContain(environment);
    expect(text).toContain("numpy");
  });
});

describeWith("bubblewrap", "an environment in the workspace", () => {
  const project = () => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), "cellwright-project-")));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    return folder;
  };

  test.each(["auto", "none"])("is read-only for WASM sessions, too, with --jail %s", async (jail) => {
    const workspace = project();
    mkdirSync(join(workspace, ".venv/bin"), { recursive: true });
    const args = ["--kernel", "wasm", "--jail", jail, "--workspace", workspace];
    const own = await startStdio({ args });
    const tries = [
      "open('.venv/planted', 'w')",
      "import os\nos.rename('.venv', 'away')",
      "import os\nos.rmdir('.venv/bin')",
    ];
    for (const code of tries) expect((await own.run(code)).execution.status, code).toBe("error");
    expect((await own.run("open('notes', 'w').write('x')")).execution.status).toBe("ok");
    expect(readdirSync(workspace)).toEqual(expect.arrayContaining([".venv", "notes"]));
    expect(readdirSync(join(workspace, ".venv"))).toEqual(["bin"]);
  });
});

describeWith("localKernels", "local kernels and the end of the server", () => {
  async function start(dataDir: string, args: string[] = []): Promise<HttpProgram & { client: HttpProgram["client"] }> {
    return startHttp({ args: [...local, ...args], dataDir });
  }

  test("a package that was installed for the session is there for the programs of its shell, too", async () => {
    const script = { "thing/__init__.py": "def main(): print('the program of thing')\n" };
    const thing = wheel("thing", {
      files: { ...script, "thing-1.0.data/scripts/thing": "#!python\nprint('hello')\n" },
    });
    const folder = mkdtempSync(join(tmpdir(), "cellwright-wheels-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, thing.file), thing.data);
    // Not the repository: programs in the export folder are not used, and uv is one of them.
    const args = [...local, "--package-dir", folder, "--files-dir", folder];
    const own = await startStdio({ args, env: { ...bareEnv, PIP_NO_INDEX: "1" } });
    const { session_id } = (await own.run("echo ready", { language: "bash" })).execution;
    const installed = await own.call("install_packages", { session_id, packages: ["thing"] });
    expect(installed.isError, installed.text).toBe(false);
    const used = await own.run("python -c 'import thing; thing.main()'; thing", { session_id, language: "bash" });
    expect(used.text).toContain("the program of thing");
    expect(used.text).toContain("hello");
  });

  test("a crash loses nothing: the next server takes over the kernel and the cell that ran", async () => {
    const dataDir = temporaryDataDir();
    const first = await start(dataDir);
    const before = await first.client();
    const { session_id } = (await before.run("kept = 41")).execution;
    const gates = gatesOf(join(dataDir, "sessions", session_id, "workspace"));
    const running = await before.run(gatedCell, { session_id, wait_s: 0 });
    expect(running.execution.status).toBe("running");
    await gates.begun();
    await first.stop("SIGKILL");
    gates.open("go");
    const second = await start(dataDir);
    const after = await second.client();
    gates.open("end");
    const { execution_id } = running.execution;
    const rest = await after.call("wait", { session_id, execution_id, wait_s: 30 });
    expect(rest.execution).toMatchObject({ status: "ok", execution_id });
    for (const word of ["before", "meanwhile", "after", "42"]) expect(rest.text).toContain(word);
    const next = await after.run("kept", { session_id });
    expect(next.text).toContain("41");
    expect(next.text).not.toContain("fresh kernel");
  });

  test("a kernel that outlived its server has the same network through the next one, by its own socket", async () => {
    const web = createServer((_, response) => response.end("from outside")).listen(0, "127.0.0.1");
    await once(web, "listening");
    onTestFinished(() => void web.close());
    const { port } = web.address() as AddressInfo;
    const ask = `connection = socket.create_connection(("127.0.0.1", 3128), 5)
connection.sendall(b"GET http://127.0.0.1:${port}/ HTTP/1.0\\r\\n\\r\\n")
connection.makefile("rb").read().decode()`;
    const dataDir = temporaryDataDir();
    const args = [`--allow-net=127.0.0.1:${port}`, "--log-level", "info"];
    const first = await start(dataDir, args);
    const before = await first.client();
    const { session_id } = (await before.run("import socket")).execution;
    expect((await before.run(ask, { session_id })).text).toContain("from outside");
    expect(first.stderr()).toContain(`session ${session_id}: network allowed: 127.0.0.1:${port}`);
    await first.stop("SIGKILL");
    const second = await start(dataDir, args);
    const after = await second.client();
    const again = await after.run(ask, { session_id });
    expect(again.text).toContain("from outside");
    expect(again.text).not.toContain("fresh kernel");
    await after.call("close_session", { session_id });
    expect(existsSync(join(dataDir, "sessions", session_id, "run"))).toBe(false);
  });

  test("an orderly stop ends kernels and leaves no process, no socket and no run folder", async () => {
    const dataDir = temporaryDataDir();
    const server = await start(dataDir);
    const client = await server.client();
    const { session_id } = (await client.run("import os\nos.getpid()")).execution;
    await client.run("sleep 1000 & echo started", { session_id, language: "bash" });
    expect(processesOf(dataDir).length).toBeGreaterThan(2);
    await server.stop();
    await until("all processes to be gone", () => processesOf(dataDir).length === 0);
    expect(existsSync(join(dataDir, "sessions", session_id, "run"))).toBe(false);
  });

  test("--restore replay brings variables back after a restart", async () => {
    const dataDir = temporaryDataDir();
    const first = await start(dataDir, ["--restore", "replay"]);
    const before = await first.client();
    const { session_id } = (await before.run("kept = 41")).execution;
    await before.run("kept += 1", { session_id });
    await first.stop();
    const second = await start(dataDir, ["--restore", "replay"]);
    const after = await (await second.client()).run("kept", { session_id });
    expect(after.text).toContain("42");
    expect(after.text).toContain("2 earlier cells were run again");
  });

  test("--workspace is the user's own folder, which outlives its sessions", async () => {
    const workspace = mkdtempSync(join(tmpdir(), "cellwright-project-"));
    onTestFinished(() => rmSync(workspace, { recursive: true, force: true }));
    writeFileSync(join(workspace, "mine.txt"), "mine");
    const server = await start(temporaryDataDir(), ["--workspace", workspace]);
    const client = await server.client();
    const reply = await client.run(
      "import os\nprint(os.getcwd(), open('mine.txt').read())\nopen('new.txt', 'w').write('x')",
    );
    expect(reply.text).toContain(`${workspace} mine`);
    const { session_id } = reply.execution;
    await client.call("close_session", { session_id, delete_files: true });
    await server.stop();
    expect(readdirSync(workspace).sort()).toEqual(["mine.txt", "new.txt"]);
    expect(readFileSync(join(workspace, "mine.txt"), "utf8")).toBe("mine");
  });
});
