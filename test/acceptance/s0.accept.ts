/** mcp-python-code-interpreter: its own tools, over HTTP, on real kernels. Each name begins with its case. */

import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { drawn } from "../support/drawn.ts";
import { heldCell, releaseCells } from "../support/held-cells.ts";
import { temporaryDataDir, until } from "../support/program.ts";
import { testPython } from "../support/pythons.ts";
import { describeWith, requirement } from "../support/requirements.ts";
import data from "./data/mcp-python-code-interpreter.json" with { type: "json" };
import { imagesOf, type RawReply, startToolsetServer, type ToolsetServer, textOf } from "./toolset-program.ts";

const NAME = "mcp-python-code-interpreter";
const environment = dirname(dirname(testPython("managed")));
const local = ["--env", environment, "--port", "0"];

interface FileRef {
  uri: string;
  mime_type: string;
  name: string;
  size: number;
}
interface Result {
  success: boolean;
  output: string[];
  result: string | null;
  error: string | null;
  traceback: string[];
  files: FileRef[];
  session_info: { session_id: string; instructions: string } | null;
}
type Executed = Result & { reply: RawReply };

const expiredText = (id: string) =>
  `Session ${id} not found or has expired. Sessions expire after 30 minutes of inactivity.`;
const anewText = 'Please create a new session (use session_id="" or session_id="0") and re-execute your setup code.';
const inlinePng = /^inline_\d{13}(-\d+)?\.png$/;

async function runIn(server: ToolsetServer, code: string, session_id?: string): Promise<Executed> {
  const reply = await server.call("execute_code", { code, ...(session_id === undefined ? {} : { session_id }) });
  return { ...(reply.structuredContent as unknown as Result), reply };
}

async function begin(server: ToolsetServer, code = "pass"): Promise<string> {
  return String((await runIn(server, code)).session_info?.session_id);
}

async function read(server: ToolsetServer, uri: string) {
  const { contents } = await server.client.readResource({ uri });
  return contents[0] as { uri: string; mimeType: string; text?: string; blob?: string };
}

describeWith("localKernels", "S0 mcp-python-code-interpreter", () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  const atEnd = (cleanUp: () => void | Promise<void>) => void cleanUps.unshift(cleanUp);
  let server: ToolsetServer;
  let shared: string;
  let longCell: Promise<Executed>;
  beforeAll(async () => {
    server = await startToolsetServer(NAME, { args: local, atEnd });
    longCell = runIn(server, "import time\ntime.sleep(12)\nprint('ok')");
    shared = await begin(server, "import os, sys\nimport matplotlib.pyplot as plt");
  });
  afterAll(async () => {
    for (const cleanUp of cleanUps) await cleanUp();
  });
  const run = (code: string, id = shared) => runIn(server, code, id);

  test("S0-01 three tools and one template", async () => {
    const { tools } = await server.client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["execute_code", "list_session_files", "clear_session"]);
    const { resourceTemplates } = await server.client.listResourceTemplates();
    expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toEqual(["kernel://{session_id}/{filename}"]);
    expect((await server.client.listResources()).resources).toEqual([]);
    expect(server.client.getServerVersion()?.name).toBe("Python Code Interpreter");
  });

  test("S0-02 code is required, session_id is an empty string unless given", async () => {
    const { tools } = await server.client.listTools();
    expect(tools[0]?.inputSchema).toMatchObject({
      properties: { code: { type: "string" }, session_id: { type: "string", default: "" } },
      required: ["code"],
    });
  });

  test("the tools are defined key by key as in the original", async () => {
    const { tools } = await server.client.listTools();
    expect(tools.map(({ name, inputSchema }) => ({ name, inputSchema }))).toEqual(data.tools);
    for (const { description } of tools) expect(description).toBeTruthy();
  });

  test("S0-03, S0-05 a first cell gets a session, and the next one finds its variables", async () => {
    const first = await runIn(server, "import pandas as pd\nx = 42\nprint('Hello, World!')");
    expect(first).toMatchObject({ success: true, output: ["Hello, World!\n"], result: null, files: [] });
    expect(first.session_info?.session_id).toMatch(/^[A-Za-z0-9_-]{16}$/);
    expect(first.session_info?.instructions).toBe(
      "Use this `session_id` in subsequent requests to maintain state. Session will expire after 30 minutes of inactivity.",
    );
    const again = await run("print(x * 2)", first.session_info?.session_id);
    expect(again).toMatchObject({ output: ["84\n"], session_info: null });
  });

  test("S0-04 no id, an empty one and 0 each begin a session of their own", async () => {
    const replies = await Promise.all([undefined, "", "0"].map((id) => runIn(server, "1", id)));
    const ids = replies.map(({ session_info }) => String(session_info?.session_id));
    expect(new Set(ids).size).toBe(3);
    for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9_-]{16}$/);
  });

  test("S0-06 a result, an exception and an unknown id have the same seven keys, as object and as text", async () => {
    const keys = ["error", "files", "output", "result", "session_info", "success", "traceback"];
    for (const one of [await run("1"), await run("1/0"), await run("1", "nope")]) {
      const { structuredContent, content } = one.reply;
      expect(Object.keys(structuredContent ?? {}).sort()).toEqual(keys);
      const texts = content.filter(({ type }) => type === "text");
      expect(texts).toHaveLength(1);
      expect(JSON.parse(String(texts[0]?.text))).toEqual(structuredContent);
    }
  });

  test("S0-07 an unknown id is reported in the payload", async () => {
    const { error, traceback, success, reply } = await run("1", "nope");
    expect(error).toBe(`SessionExpiredError: ${expiredText("nope")} ${anewText}`);
    expect({ traceback, success, isError: reply.isError ?? false }).toEqual({
      traceback: [],
      success: false,
      isError: false,
    });
  });

  test("S0-08 an exception is shown without escape codes and leaves variables alone", async () => {
    await run("earlier = 'kept'");
    const failed = await run("1/0");
    expect(failed.error).toBe("ZeroDivisionError: division by zero");
    expect(failed.traceback.length).toBeGreaterThan(0);
    expect(failed.traceback.join("\n")).not.toContain("\u001b");
    expect(failed.traceback.at(-1)).toBe("ZeroDivisionError: division by zero");
    expect((await run("earlier")).result).toBe("'kept'");
  });

  test("S0-09 a first cell that raises keeps its session", async () => {
    const first = await runIn(server, "y = 1\n1/0");
    expect(first.success).toBe(false);
    expect((await run("y", first.session_info?.session_id)).result).toBe("1");
  });

  test("S0-10 code that cannot be parsed, and a missing interpreter", async () => {
    expect((await run("def")).error).toMatch(/^SyntaxError: /);
    const other = await startToolsetServer(NAME, { args: ["--env", "/nowhere/env", "--port", "0"] });
    const failed = await runIn(other, "1");
    expect(failed.error).toMatch(/^InitializationError: .*\/nowhere\/env/);
    expect(failed).toMatchObject({ success: false, traceback: [], session_info: null });
  });

  test("S0-11 the last expression is the result, and is not printed", async () => {
    await run("x = 42");
    expect(await run("x + 1")).toMatchObject({ result: "43", output: [] });
  });

  test("S0-12 stdout and stderr keep their order", async () => {
    const line = (text: string, file: string) => `print('${text}', file=sys.${file}, flush=True)`;
    const { output } = await run([line("a", "stdout"), line("b", "stderr"), line("c", "stdout")].join("\n"));
    expect(output).toEqual(["a\n", "b\n", "c\n"]);
  });

  test("S0-13 the path of a file or folder of the session is shown as its name", async () => {
    expect((await run("_ = open('r.txt', 'w').write('x')\nos.path.abspath('r.txt')")).result).toBe("r.txt");
    expect((await run("os.makedirs('deep/er')\nos.path.abspath('deep/er')")).result).toBe("er");
    expect((await run("os.path.abspath('not-there')")).result).toMatch(/^'\/.*not-there'$/);
    expect((await run("'/etc/passwd'")).result).toBe("'/etc/passwd'");
  });

  test("the working directory bears the session's id", async () => {
    const id = await begin(server);
    expect((await run("import os\nprint(os.getcwd())", id)).output.join("").trim().split("/")).toContain(id);
    expect((await run("os.getcwd() == os.path.expanduser('~')", id)).result).toBe("True");
  });

  test("S0-14, S0-15, S0-16 a file is reported when it is made and when it changes, not in between", async () => {
    const id = await begin(server);
    const made = await run("_ = open('a.csv', 'w').write('1,2')", id);
    const uri = `kernel://${id}/a.csv`;
    expect(made.files).toEqual([{ uri, mime_type: "text/csv", name: "a.csv", size: 3 }]);
    expect(made.output).toEqual(["📊 File created: a.csv (text/csv, 3 bytes)"]);
    expect(await run("pass", id)).toMatchObject({ files: [], output: [] });
    const changed = await run("_ = open('a.csv', 'w').write('1,2,3')", id);
    expect(changed.files).toEqual([{ uri, mime_type: "text/csv", name: "a.csv", size: 5 }]);
    expect(changed.output).toEqual(["📊 File changed: a.csv (text/csv, 5 bytes)"]);
  });

  test("S0-14 files of a failing cell, and files that come between cells, are reported too", async () => {
    const id = await begin(server);
    expect((await run("open('half.txt', 'w').write('x')\n1/0", id)).files).toMatchObject([{ name: "half.txt" }]);
    writeFileSync(join(server.dataDir, "sessions", id, "workspace/late.txt"), "");
    const { files } = await run("pass", id);
    expect(files).toMatchObject([{ name: "late.txt", size: 0 }]);
  });

  test("S0-17 files of one name in two folders are two", async () => {
    const id = await begin(server);
    const code = "import os\nfor d in 'ab':\n    os.mkdir(d)\n    _ = open(d + '/x.txt', 'w').write('in ' + d)";
    const { files } = await run(code, id);
    expect(files.map(({ uri }) => uri)).toEqual([`kernel://${id}/a%2Fx.txt`, `kernel://${id}/b%2Fx.txt`]);
    const texts = await Promise.all(files.map(({ uri }) => read(server, uri)));
    expect(texts.map(({ text }) => text)).toEqual(["in a", "in b"]);
    expect((await read(server, `kernel://${id}/a/x.txt`)).text).toBe("in a");
  });

  test("S0-18 an unknown extension is plain bytes", async () => {
    const { files } = await run("_ = open('d.unknownext', 'w').write('x')");
    expect(files).toMatchObject([{ mime_type: "application/octet-stream" }]);
  });

  test("S0-19 a plot that is shown is one picture and one file", async () => {
    const id = await begin(server);
    const shown = await run("import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()", id);
    expect(shown.files).toMatchObject([{ name: expect.stringMatching(inlinePng), mime_type: "image/png" }]);
    const { blob } = await read(server, String(shown.files[0]?.uri));
    expect(Buffer.from(String(blob), "base64").subarray(0, 4).toString("latin1")).toBe("\x89PNG");
    expect(imagesOf(shown.reply)).toHaveLength(1);
    expect(textOf(shown.reply)).not.toContain("iVBOR");
    expect(shown.output.at(-1)).toBe(
      `📊 File created: ${shown.files[0]?.name} (image/png, ${shown.files[0]?.size} bytes)`,
    );
    expect((await run("pass", id)).files).toEqual([]);
  });

  test("S0-20 a figure and a PIL image as last lines are one file each", async () => {
    const png = [{ name: expect.stringMatching(inlinePng) }];
    expect((await run("fig, ax = plt.subplots()\nax.plot([1, 2])\nfig")).files).toMatchObject(png);
    // Of an earlier cell, closed, and one that pyplot never knew.
    expect((await run("fig")).files).toMatchObject(png);
    const alone = "from matplotlib.figure import Figure\nalone = Figure()\n_ = alone.add_subplot().plot([1, 2])\nalone";
    expect(await run(alone)).toMatchObject({ files: png, result: "<Figure size 640x480 with 1 Axes>" });
    expect((await run("from PIL import Image\nImage.new('RGB', (30, 20), 'red')")).files).toMatchObject(png);
  });

  test("S0-20 other forms of a value are kept, and its text is the result", async () => {
    const { reply, result, files } = await run("from IPython.display import HTML\nHTML('<b>kept</b>')");
    expect({ result, files }).toEqual({ result: "<IPython.core.display.HTML object>", files: [] });
    const link = reply.content.find(({ type, mimeType }) => type === "resource_link" && mimeType === "text/html");
    expect((await read(server, String(link?.uri))).text).toBe("<b>kept</b>");
  });

  test("S0-21 an SVG is kept as one, and a seaborn plot is one picture", async () => {
    const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>';
    const { files } = await run(`from IPython.display import SVG\ndisplay(SVG('${svg}'))`);
    expect(files).toMatchObject([{ name: expect.stringMatching(/^inline_\d+\.svg$/), mime_type: "image/svg+xml" }]);
    const { blob } = await read(server, String(files[0]?.uri));
    expect(Buffer.from(String(blob), "base64").toString()).toBe(svg);
    const plot = await run("import seaborn as sns\nsns.lineplot(x=[1, 2], y=[2, 1]);");
    expect(plot.files).toMatchObject([{ mime_type: "image/png" }]);
  });

  test("S0-22 one plotly show is one image file, or a page and a warning", async () => {
    const { files, output } = await drawn(
      () => run("import plotly.express as px\npx.line(x=[1, 2], y=[3, 4]).show()"),
      ({ files }) => files.some(({ mime_type }) => mime_type === "image/png"),
    );
    expect(files).toHaveLength(1);
    const [file] = files;
    if (requirement("chromium").ok) {
      expect(file).toMatchObject({ name: expect.stringMatching(/^plotly_\d{13}\.png$/), mime_type: "image/png" });
      expect(output[0]).toBe(`Plotly figure saved as ${file?.name}\n`);
    } else {
      expect(file).toMatchObject({ mime_type: "text/html" });
      expect(output[0]).toMatch(/^Warning: Could not save Plotly figure: /);
    }
  });

  test("S0-23 two pictures at once are two files", async () => {
    const code = "from PIL import Image\nfor c in 'red', 'blue': display(Image.new('RGB', (30, 20), c))";
    const { files } = await run(code);
    expect(new Set(files.map(({ name }) => name)).size).toBe(2);
    for (const { name } of files) expect(name).toMatch(inlinePng);
    const blobs = await Promise.all(files.map(({ uri }) => read(server, uri)));
    expect(new Set(blobs.map(({ blob }) => blob)).size).toBe(2);
  });

  test("S0-24 files that were reported and are still there are listed", async () => {
    const id = await begin(server, "import os\nfor n in 'ab': open(n, 'w').write(n)");
    await run("os.remove('a')", id);
    const { structuredContent } = await server.call("list_session_files", { session_id: id });
    const file = { uri: `kernel://${id}/b`, mime_type: "application/octet-stream", name: "b", size: 1 };
    expect(structuredContent).toEqual({ session_id: id, files: [file] });
  });

  test("S0-25 files of an unknown session are none, and that is said", async () => {
    const { structuredContent } = await server.call("list_session_files", { session_id: "nope" });
    expect(structuredContent).toEqual({ session_id: "nope", files: [], error: expiredText("nope") });
  });

  test("S0-27 text is read as text and a picture as bytes", async () => {
    await run("_ = open('t.csv', 'w').write('1,2')\nfrom PIL import Image\nImage.new('RGB', (3, 3)).save('p.png')");
    expect(await read(server, `kernel://${shared}/t.csv`)).toMatchObject({ mimeType: "text/csv", text: "1,2" });
    const picture = await read(server, `kernel://${shared}/p.png`);
    expect(picture).toMatchObject({ mimeType: "image/png", blob: expect.stringMatching(/^iVBOR/) });
  });

  test("S0-28 a missing file, the history and an unknown session are not read", async () => {
    await run("_ = open('jupyter_session_code.txt', 'w').write('mine')");
    const refusal = (uri: string) => server.client.readResource({ uri }).catch((error) => error);
    for (const name of ["gone.txt", "jupyter_session_code.txt"]) {
      const error = await refusal(`kernel://${shared}/${name}`);
      expect(error.message).toMatch(new RegExp(`File not found: ${name}$`));
      expect(error.code).toBe(0);
    }
    expect((await refusal("kernel://nope/a.csv")).message).toMatch(new RegExp(`${expiredText("nope")}$`));
    const { structuredContent } = await server.call("list_session_files", { session_id: shared });
    expect(JSON.stringify(structuredContent)).not.toContain("jupyter_session_code");
  });

  test("S0-29 no address leads out of the session", async () => {
    writeFileSync(join(server.dataDir, "secret.txt"), "secret");
    const id = await begin(server, "import os\nos.symlink('/etc/passwd', 'link')\nos.symlink('../../..', 'up')");
    const paths = ["..%2F..%2Fsecret.txt", "../x", "%2Fetc%2Fpasswd", "/etc/passwd", "link", "up/secret.txt"];
    for (const path of paths) {
      const error = await server.client.readResource({ uri: `kernel://${id}/${path}` }).catch((reason) => reason);
      expect(error.message).toContain(`File not found: ${decodeURIComponent(path)}`);
    }
  });

  test("S0-30 an id that looks like a path is only an unknown id", async () => {
    const victim = join(server.dataDir, "victim");
    mkdirSync(victim);
    writeFileSync(join(victim, "file"), "mine");
    const before = readdirSync(join(server.dataDir, "sessions")).sort();
    for (const id of ["..", "../victim", "a/b", "%2e%2e", "%2e%2e%2fvictim", "x".repeat(500)]) {
      expect((await run("1", id)).error).toMatch(/^SessionExpiredError: Session .* not found or has expired/);
      const listed = await server.call("list_session_files", { session_id: id });
      expect(listed.structuredContent).toEqual({ session_id: id, files: [], error: expiredText(id) });
      const cleared = await server.call("clear_session", { session_id: id });
      expect(cleared.structuredContent).toEqual({ success: false, message: `Session ${id} not found` });
    }
    expect(readFileSync(join(victim, "file"), "utf8")).toBe("mine");
    expect(readdirSync(join(server.dataDir, "sessions")).sort()).toEqual(before);
  });

  test("S0-32 a cell over the limit is stopped with what it printed, and nothing of it comes later", async () => {
    const limited = await startToolsetServer(NAME, { args: [...local, "--timeout", "2"] });
    const id = await begin(limited);
    const stopped = await runIn(limited, "print('start')\nwhile True: pass", id);
    expect(stopped).toMatchObject({
      success: false,
      error: "TimeoutError: cell stopped after 2 s",
      traceback: [],
      output: ["start\n"],
    });
    expect(await runIn(limited, "print('own')", id)).toMatchObject({ success: true, output: ["own\n"] });
    const swallowing = "import time\nwhile True:\n    try: time.sleep(600)\n    except BaseException: pass";
    expect((await runIn(limited, swallowing, id)).error).toMatch(
      /^TimeoutError: cell stopped after 2 s.*state was lost$/,
    );
    expect(await runIn(limited, "1 + 1", id)).toMatchObject({ success: true, result: "2" });
  });

  test("S0-33 two cells at once keep their order, and a dead kernel is reported at once", async () => {
    const cell = (n: number) => `for i in range(50): print('cell ${n}', i, flush=True)`;
    const lines = (n: number) => [Array.from({ length: 50 }, (_, i) => `cell ${n} ${i}\n`).join("")];
    const id = await begin(server);
    const [one, two] = await Promise.all([run(cell(1), id), run(cell(2), id)]);
    expect([one?.output, two?.output]).toEqual([lines(1), lines(2)]);
    const died = await run("import os; os._exit(1)", id);
    expect(died).toMatchObject({ success: false, error: "KernelError: kernel died; state was lost", traceback: [] });
    expect(await run("1 + 1", id)).toMatchObject({ success: true, result: "2" });
  });

  test("an example: a session is begun, and its variable persists", async () => {
    const [first, again] = data.examples;
    const begun = await runIn(server, String(first?.code), "");
    expect(begun).toMatchObject(first?.reply as object);
    expect(begun.session_info?.instructions).toContain(data.instructionsStart);
    expect((await run(String(again?.code), begun.session_info?.session_id)).output).toEqual(["84\n"]);
  });

  test("an example: a figure that is saved and shown is listed as both files", async () => {
    const { code, file } = data.figureExample;
    const { success, files, output } = await run(code, await begin(server));
    expect(success).toBe(true);
    expect(files.map(({ name }) => name)).toEqual([expect.stringMatching(inlinePng), file]);
    const saved = files[1];
    expect(output.at(-1)).toBe(`📊 File created: ${file} (image/png, ${saved?.size} bytes)`);
    expect(saved).toMatchObject({
      uri: expect.stringMatching(`^kernel://[\\w-]{16}/${file}$`),
      mime_type: "image/png",
    });
  });

  test("long text is shown by its two ends, and all of it can be read", async () => {
    const { output, reply } = await run("print('x' * 60_000 + 'end')");
    expect(output[0]?.length).toBeLessThanOrEqual(24_000);
    expect(output[0]).toMatch(/^xxx[\s\S]*characters left out[\s\S]*end\n$/);
    const link = reply.content.find(({ type }) => type === "resource_link");
    expect((await read(server, String(link?.uri))).text).toBe(`${"x".repeat(60_000)}end\n`);
  });

  test("an unknown tool, and wrong arguments", async () => {
    expect(await server.call("nope")).toMatchObject({ isError: true, content: [{ text: "Unknown tool: nope" }] });
    const wrong = await server.call("execute_code", {});
    expect(wrong).toMatchObject({ isError: true, content: [{ text: expect.stringContaining("code") }] });
  });

  test("S0-31 a cell of 12 seconds is not cut off", async () => {
    expect(await longCell).toMatchObject({ success: true, output: ["ok\n"] });
  });
});

describeWith("localKernels", "S0 lifetimes", () => {
  test("S0-26 a live session and one that is only on disk are cleared, once", async () => {
    const dataDir = temporaryDataDir();
    const before = await startToolsetServer(NAME, { args: local, dataDir });
    const stored = await begin(before, "_ = open('f.txt', 'w').write('mine')");
    await before.close();
    const server = await startToolsetServer(NAME, { args: local, dataDir });
    const live = await begin(server);
    for (const id of [live, stored]) {
      const folder = join(dataDir, "sessions", id);
      expect(existsSync(folder)).toBe(true);
      const { structuredContent } = await server.call("clear_session", { session_id: id });
      expect(structuredContent).toEqual({ success: true, message: `Session ${id} cleared and all files deleted` });
      expect(existsSync(folder)).toBe(false);
    }
    for (const id of [live, stored]) {
      const { structuredContent } = await server.call("clear_session", { session_id: id });
      expect(structuredContent).toEqual({ success: false, message: `Session ${id} not found` });
      expect((await runIn(server, "1", id)).error).toMatch(/^SessionExpiredError: /);
    }
  });

  test("S0-34 an idle session expires with its folder, a busy one does not", async () => {
    const server = await startToolsetServer(NAME, { args: [...local, "--session-ttl", "2"] });
    const folder = (id: string) => join(server.dataDir, "sessions", id);
    mkdirSync(folder("an-empty-orphan_"));
    const [idle, busy] = await Promise.all([begin(server), begin(server, "kept = 41")]);
    const long = runIn(server, `${heldCell}\nkept + 1`, busy);
    await until("the idle session to expire", () => !existsSync(folder(String(idle))), 30_000);
    await until("the orphan to be removed", () => !existsSync(folder("an-empty-orphan_")), 30_000);
    expect((await runIn(server, "1", idle)).error).toMatch(/^SessionExpiredError: /);
    await releaseCells(server.dataDir, 1);
    expect(await long).toMatchObject({ success: true, result: "42" });
    expect(await runIn(server, "kept", busy)).toMatchObject({ result: "41" });
  });

  test("S0-35 a stored session is restored by what it ran, and the server is where it always was", async () => {
    const dataDir = temporaryDataDir();
    const before = await startToolsetServer(NAME, { args: local, dataDir });
    const id = await begin(before, "x = 1");
    const broken = await begin(before, "import os\ny = 2");
    await runIn(before, "open('once', 'x').close(); z = 3", broken);
    await before.close();
    const server = await startToolsetServer(NAME, { args: local, dataDir, env: { LOG_LEVEL: "junk" } });
    expect(server.stderr()).toContain("LOG_LEVEL=junk");
    expect(await runIn(server, "x", id)).toMatchObject({ success: true, result: "1", output: [] });
    expect((await runIn(server, "!echo hi", id)).output).toEqual(["hi\n"]);
    expect((await runIn(server, "lines = !echo hi\nlines[0]", id)).result).toBe("'hi'");
    expect((await runIn(server, "import os\nos.environ['JUPYTER_PLATFORM_DIRS']", id)).result).toBe("'1'");
    const warned = await runIn(server, "y", broken);
    expect(warned).toMatchObject({ success: true, result: "2" });
    expect(warned.output[0]).toMatch(/^Restore warning: cell 2 failed: FileExistsError: .*once/);
  });

  test("S0-35 without options it listens on 127.0.0.1, port 8000, at /mcp and at /mcp/", async () => {
    const started = await startToolsetServer(NAME, { args: ["--env", environment] }).catch((error) => String(error));
    // The port may be in use on this machine; then the error names it.
    if (typeof started === "string") return expect(started).toMatch(/Port 8000 of 127\.0\.0\.1 is in use/);
    expect(started.url).toBe("http://127.0.0.1:8000/mcp");
  });

  test("S0-35 both addresses answer, and sessions live where NOTEBOOKS_FOLDER says", async () => {
    const folder = temporaryDataDir();
    const server = await startToolsetServer(NAME, { args: local, env: { NOTEBOOKS_FOLDER: folder } });
    const body = {
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "x", version: "1" } },
    };
    for (const url of [server.url, `${server.url}/`]) {
      const accept = "application/json, text/event-stream";
      const headers = { "content-type": "application/json", accept, ...server.headers };
      const { status } = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
      expect(status).toBe(200);
    }
    const id = await begin(server, "_ = open('f.txt', 'w').write('mine')");
    expect(existsSync(join(folder, id))).toBe(true);
    expect(existsSync(join(server.dataDir, "sessions"))).toBe(false);
    symlinkSync("/etc/passwd", join(folder, id, "workspace/link"));
    await expect(read(server, `kernel://${id}/link`)).rejects.toThrow("File not found: link");
  });
});
