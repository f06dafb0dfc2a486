/** Behaviour that users of mcp-python-code-interpreter know, on local kernels; each name begins with its case. */

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { drawn } from "../support/drawn.ts";
import { type Reply, startStdio, type TestClient } from "../support/program.ts";
import { testPython } from "../support/pythons.ts";
import { describeWith, requirement } from "../support/requirements.ts";

const local = ["--kernel", "local", "--env", dirname(dirname(testPython("managed"))), "--structured"];

type Program = TestClient & { dataDir: string };

describeWith("localKernels", "S0 on local kernels", () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  let client: Program;
  let longCell: Promise<Reply>;
  /** A session that most cases share, as cells of one conversation. */
  let session_id: string;
  const run = (code: string) => client.run(code, { session_id });

  beforeAll(async () => {
    client = await startStdio({
      args: local,
      env: { CELLWRIGHT_WARM: "1" },
      atEnd: (cleanUp) => cleanUps.unshift(cleanUp),
    });
    longCell = client.run("import time\ntime.sleep(12)\nprint('ok')");
    session_id = (await client.run("import os, sys\nimport matplotlib.pyplot as plt")).execution.session_id;
  });
  afterAll(async () => {
    for (const cleanUp of cleanUps) await cleanUp();
  });

  test("S0-03, S0-05 a first cell gets a session, and the next one finds its variables", async () => {
    const first = await client.run("import pandas as pd\nx = 42\nprint('Hello, World!')");
    expect(first.structured).toMatchObject({ status: "ok", stdout: "Hello, World!\n", result: "", files: [] });
    const again = await client.run("print(x * 2)", { session_id: first.execution.session_id });
    expect(again.structured).toMatchObject({ stdout: "84\n", session_id: first.execution.session_id });
  });

  test("S0-04 no id, an empty one and 0 each begin a session of their own", async () => {
    const replies = await Promise.all([{}, { session_id: "" }, { session_id: "0" }].map((id) => client.run("1", id)));
    const ids = replies.map(({ execution }) => execution.session_id);
    expect(new Set(ids).size).toBe(3);
    for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9_-]{16}$/);
    await Promise.all(ids.map((id) => client.call("close_session", { session_id: id })));
  });

  test("S0-07 an unknown id is an error that says what to do, and begins no session", async () => {
    const before = await total(client);
    const reply = await client.run("1", { session_id: "nope" });
    expect(reply.isError).toBe(true);
    expect(reply.text).toContain("nope");
    expect(reply.text).toContain("session_id");
    expect(await total(client)).toBe(before);
  });

  test("S0-08 an exception is shown without escape codes and leaves variables alone", async () => {
    await run("earlier = 'kept'");
    const failed = await run("1/0");
    expect(failed.isError).toBe(false);
    expect(failed.structured?.error).toMatchObject({ name: "ZeroDivisionError", message: "division by zero" });
    expect(failed.text).toContain("ZeroDivisionError: division by zero");
    expect(failed.text).not.toContain("\u001b");
    expect((await run("earlier")).structured?.result).toBe("'kept'");
  });

  test("S0-09 a first cell that raises keeps its session and what it had done", async () => {
    const first = await client.run("y = 1\n1/0");
    expect(first.execution.status).toBe("error");
    const next = await client.run("y", { session_id: first.execution.session_id });
    expect(next.structured?.result).toBe("1");
  });

  test("S0-10 code that cannot be parsed is a SyntaxError, shown once", async () => {
    const { structured, text } = await run("def");
    expect(structured?.error).toMatchObject({ name: "SyntaxError" });
    expect(text.match(/SyntaxError: invalid syntax/g)).toHaveLength(1);
  });

  test("S0-10 an interpreter that does not exist is an error of the call, and the server goes on", async () => {
    const server = await startStdio({ args: ["--kernel", "local", "--env", "/nowhere/env", "--structured"] });
    for (const _ of [1, 2]) {
      const reply = await server.run("1");
      expect(reply.isError).toBe(true);
      expect(reply.text).toContain("/nowhere/env");
    }
    expect(await total(server)).toBe(0);
  });

  test("S0-11 the last expression is the result, and is not printed", async () => {
    await run("x = 42");
    expect((await run("x + 1")).structured).toMatchObject({ result: "43", stdout: "" });
  });

  test("S0-12 stdout and stderr keep their order", async () => {
    const line = (text: string, file: string) => `print('${text}', file=sys.${file}, flush=True)`;
    const { text } = await run([line("a", "stdout"), line("b", "stderr"), line("c", "stdout")].join("\n"));
    expect(text).toMatch(/^a\n[^\n]*\nb\n[^\n]*\nc\n/);
  });

  test("S0-14, S0-15, S0-16 a file is reported when it is made and when it changes, not in between", async () => {
    const made = await run("_ = open('a.csv', 'w').write('1,2')");
    expect(made.structured?.files).toEqual([
      { path: "a.csv", change: "created", size_bytes: 3, mime_type: "text/csv" },
    ]);
    expect(links(made)).toEqual([expect.objectContaining({ name: "a.csv", mimeType: "text/csv", size: 3 })]);
    const idle = await run("pass");
    expect(idle.structured?.files).toEqual([]);
    expect(links(idle)).toEqual([]);
    const changed = await run("_ = open('a.csv', 'w').write('1,2,3')");
    expect(changed.structured?.files).toMatchObject([{ path: "a.csv", change: "modified", size_bytes: 5 }]);
  });

  test("S0-14 files of a cell that fails are reported too", async () => {
    const failed = await run("open('half.txt', 'w').write('x')\n1/0");
    expect(failed.structured?.files).toMatchObject([{ path: "half.txt", change: "created" }]);
  });

  test("S0-17 files of one name in two folders are two, each with its own content", async () => {
    const reply = await run("for d in 'ab':\n    os.mkdir(d)\n    _ = open(d + '/x.txt', 'w').write('in ' + d)");
    const uris = links(reply).map(({ uri }) => String(uri));
    expect(uris).toHaveLength(2);
    const texts = await Promise.all(uris.map((uri) => read(client, uri)));
    expect(texts.map(({ text }) => text).sort()).toEqual(["in a", "in b"]);
    const escaped = await read(client, `cell://${session_id}/a%2Fx.txt`);
    expect(escaped.text).toBe("in a");
  });

  test("S0-18 an unknown extension is plain bytes", async () => {
    const { structured } = await run("_ = open('d.unknownext', 'w').write('x')");
    expect(structured?.files).toMatchObject([{ mime_type: "application/octet-stream" }]);
  });

  test("S0-19 a plot that is shown is one picture, and none of it is in the text", async () => {
    const reply = await run("plt.plot([1, 2]); plt.show()");
    expect(pngs(reply)).toHaveLength(1);
    expect(reply.text).not.toContain("iVBOR");
    expect(JSON.stringify(reply.structured)).not.toContain("iVBOR");
  });

  test("S0-19 a plot that is saved and shown is one picture and one file", async () => {
    const reply = await run("plt.plot([1, 2]); plt.savefig('a.png'); plt.show()");
    expect(pngs(reply)).toHaveLength(1);
    expect(reply.structured?.files).toMatchObject([{ path: "a.png", mime_type: "image/png" }]);
  });

  test("S0-20 a figure and a PIL image as last expressions are one picture each", async () => {
    expect(pngs(await run("fig, ax = plt.subplots()\nax.plot([1, 2])\nfig"))).toHaveLength(1);
    expect(pngs(await run("from PIL import Image\nImage.new('RGB', (30, 20), 'red')"))).toHaveLength(1);
  });

  test("S0-21 an SVG is kept as one, and a seaborn plot is one picture", async () => {
    const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>';
    const shown = await run(`from IPython.display import SVG\ndisplay(SVG('${svg}'))`);
    const [link] = links(shown);
    expect(link).toMatchObject({ mimeType: "image/svg+xml" });
    expect(JSON.stringify(await read(client, String(link?.uri)))).toContain("<rect");
    expect(pngs(await run("import seaborn as sns\nsns.lineplot(x=[1, 2], y=[2, 1]);"))).toHaveLength(1);
  });

  test("S0-22 a plotly figure is one picture, or HTML to open where nothing can draw it", async () => {
    const figure = "import plotly.express as px\npx.line(x=[1, 2], y=[3, 4]).show()";
    const reply = await drawn(
      () => run(figure),
      (reply) => pngs(reply).length > 0,
    );
    expect(pngs(reply)).toHaveLength(requirement("chromium").ok ? 1 : 0);
    expect(links(reply).filter(({ mimeType }) => mimeType === "text/html")).toHaveLength(1);
  });

  test("S0-23 two pictures shown at once are two", async () => {
    const code = "from PIL import Image\nfor c in 'red', 'blue': display(Image.new('RGB', (30, 20), c))";
    expect(new Set(pngs(await run(code))).size).toBe(2);
  });

  test("S0-24 files that are there are listed, deleted ones are not", async () => {
    const { execution } = await client.run("import os\nfor n in 'ab': open(n, 'w').close()\nos.remove('a')");
    const { structured } = await client.call("list_files", { session_id: execution.session_id });
    expect(structured?.files).toMatchObject([{ path: "b" }]);
  });

  test("S0-25 files of an unknown session are an error that names it", async () => {
    const reply = await client.call("list_files", { session_id: "nope" });
    expect(reply.isError).toBe(true);
    expect(reply.text).toContain("nope");
  });

  test("S0-27 text is read as text and a picture as bytes, each with its own type", async () => {
    await run("_ = open('t.csv', 'w').write('1,2')\nfrom PIL import Image\nImage.new('RGB', (3, 3)).save('p.png')");
    expect(await read(client, `cell://${session_id}/t.csv`)).toMatchObject({ mimeType: "text/csv", text: "1,2" });
    const picture = await read(client, `cell://${session_id}/p.png`);
    expect(picture).toMatchObject({ mimeType: "image/png", blob: expect.stringMatching(/^iVBOR/) });
  });

  test("S0-28 a missing file, the history and an unknown session are not read", async () => {
    const own = readdirSync(join(client.dataDir, "sessions", session_id));
    expect(own).toContain("journal.ndjson");
    const uris = [...own.filter((name) => name !== "workspace"), "gone.txt"].map((name) => `${session_id}/${name}`);
    for (const uri of [...uris, "nope/a.csv"])
      await expect(read(client, `cell://${uri}`)).rejects.toThrow(/There is no|was refused/);
    const listed = await client.call("list_files", { session_id, recursive: true });
    expect(listed.text).not.toContain("journal");
  });

  test("S0-29 no path leads out of the session", async () => {
    writeFileSync(join(client.dataDir, "secret.txt"), "secret");
    await run("os.symlink('/etc/passwd', 'link')\nos.symlink('../../..', 'up')");
    const paths = ["../../../secret.txt", "../x", "/etc/passwd", "link", "up/secret.txt", "a/../../../../secret.txt"];
    for (const path of paths) {
      const reply = await client.call("read_file", { session_id, path });
      expect(reply.isError).toBe(true);
      expect(reply.text).not.toMatch(/^secret|root:/m);
      for (const written of [path, encodeURIComponent(path)])
        await expect(read(client, `cell://${session_id}/${written}`)).rejects.toThrow();
    }
  });

  test("S0-30 an id that looks like a path is only an unknown id", async () => {
    const victim = join(client.dataDir, "victim");
    mkdirSync(victim);
    writeFileSync(join(victim, "file"), "mine");
    const before = await total(client);
    for (const id of ["..", "../victim", "a/b", "%2e%2e", "%2e%2e%2fvictim", "x".repeat(500)]) {
      const calls = [
        client.run("1", { session_id: id }),
        client.call("list_files", { session_id: id }),
        client.call("reset_session", { session_id: id }),
        client.call("close_session", { session_id: id, delete_files: true }),
      ];
      for (const { isError, text } of await Promise.all(calls)) {
        expect(isError).toBe(true);
        expect(text).toContain("session_not_found");
      }
    }
    expect(await total(client)).toBe(before);
    expect(readFileSync(join(victim, "file"), "utf8")).toBe("mine");
    expect(existsSync(join(client.dataDir, "sessions", "a"))).toBe(false);
  });

  test("S0-32 an endless cell is stopped at its limit with what it printed, and nothing of it comes later", async () => {
    const stopped = await client.run("print('start')\nwhile True: pass", { session_id, timeout_s: 1 });
    expect(stopped.structured).toMatchObject({ status: "timeout", stdout: "start\n" });
    expect(stopped.text).toContain("1 s");
    const next = await run("print('own')\nx");
    expect(next.structured).toMatchObject({ status: "ok", stdout: "own\n", result: "42", error: null });
  });

  test("S0-33 two cells at once run in order and do not mix", async () => {
    const cell = (n: number) => `for i in range(50): print('cell ${n}', i, flush=True)`;
    const [one, two] = await Promise.all([run(cell(1)), run(cell(2))]);
    expect(one.structured?.stdout).toBe(Array.from({ length: 50 }, (_, i) => `cell 1 ${i}\n`).join(""));
    expect(two.structured?.stdout).toBe(Array.from({ length: 50 }, (_, i) => `cell 2 ${i}\n`).join(""));
    expect(Number(two.execution.execution_count)).toBe(Number(one.execution.execution_count) + 1);
  });

  test("S0-33 a kernel that dies is reported at once, and the id continues with a fresh one", async () => {
    const { execution } = await client.run("z = 1");
    const own = { session_id: execution.session_id };
    const died = await client.run("print('last words', flush=True)\nimport os; os._exit(1)", own);
    expect(died.structured).toMatchObject({ status: "kernel_died", stdout: "last words\n" });
    expect(died.text).toContain("state was lost: variables are gone");
    expect((await client.run("'z' in dir()", own)).structured).toMatchObject({ status: "ok", result: "False" });
  });

  test("S0-31 a cell of 12 seconds is not cut off", async () => {
    expect((await longCell).structured).toMatchObject({ status: "ok", stdout: "ok\n" });
  });
});

function links({ content }: Reply) {
  return content.filter(({ type }) => type === "resource_link");
}

/** The pictures of a reply, all of which must be PNG. */
function pngs({ content }: Reply): string[] {
  const pictures = content.filter(({ type }) => type === "image").map(({ data }) => String(data));
  for (const picture of pictures) expect(Buffer.from(picture, "base64").subarray(1, 4).toString()).toBe("PNG");
  return pictures;
}

async function read(client: Program, uri: string): Promise<{ mimeType?: string; text?: string; blob?: string }> {
  const { contents } = await client.raw.readResource({ uri });
  return contents[0] ?? {};
}

async function total(client: Program): Promise<unknown> {
  return (await client.call("list_sessions")).structured?.total;
}
