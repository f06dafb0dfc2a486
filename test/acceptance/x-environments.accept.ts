/** Environments and what code finds there, across the replaced systems, with the native tools. */

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createWorld } from "../kernels/local/environments/world.ts";
import { describeWithMicropip } from "../kernels/wasm/packages/micropip-wheel.ts";
import { wheel } from "../kernels/wasm/packages/wheels.ts";
import { startStdio } from "../support/program.ts";
import { describeWith } from "../support/requirements.ts";
import { environment, newSession, onLocal, onWasm, shared, sharedProgram } from "./x-support.ts";

describeWith("localKernels", "environments", () => {
  test("X-31 an environment is a name, a path, a path from home or nothing; what cannot be used says why", async ({
    onTestFinished,
  }) => {
    const home = mkdtempSync(join(tmpdir(), "cellwright-home-"));
    onTestFinished(() => rmSync(home, { recursive: true, force: true }));
    mkdirSync(join(home, "envs"));
    symlinkSync(environment, join(home, "envs/named"));
    const client = await startStdio({ args: onLocal, env: { HOME: home } });
    const named = join(home, "envs/named");
    for (const [env, prefix] of [
      ["named", named],
      [named, named],
      ["~/envs/named", named],
      ["", environment],
      [undefined, environment],
    ]) {
      const { structured } = await client.run("import sys\nsys.prefix", env === undefined ? {} : { env });
      expect({ env, ...structured }).toMatchObject({ env, result: `'${prefix}'`, notices: [] });
    }
    const total = async () => (await client.call("list_sessions")).structured?.total;
    const before = await total();
    const missing = await client.run("1", { env: "definitely-not-an-env" });
    expect(missing).toMatchObject({ isError: true, text: expect.stringContaining("definitely-not-an-env") });
    const bare = createWorld().venv("bare", { ipykernel: false, pip: "" });
    const lacking = await client.run("1", { env: bare });
    expect(lacking.isError).toBe(true);
    expect(lacking.text).toMatch(/no ipykernel[\s\S]*bare\/bin\/python'? -m pip install ipykernel/);
    expect(await total()).toBe(before);

    const session_id = await newSession(client, "import sys");
    const other = await client.run("sys.prefix", { session_id, env: "named" });
    expect(other.structured).toMatchObject({ status: "ok", result: `'${environment}'` });
    expect(other.text).toMatch(/named.*ignored/);
  });
});

describe.concurrent("how long a call waits", () => {
  test.each([
    ["junk", "soon", {}, "ok"],
    ["small", "5000", {}, "running"],
    ["large", "120000", {}, "ok"],
    ["smaller than wait_s", "12000", { wait_s: 60 }, "running"],
  ])("X-32 MCP_TOOL_TIMEOUT that is %s", async (_, MCP_TOOL_TIMEOUT, args, status) => {
    const cleanUps: (() => void | Promise<void>)[] = [];
    const client = await startStdio({
      args: onWasm,
      env: { MCP_TOOL_TIMEOUT },
      atEnd: (cleanUp) => void cleanUps.unshift(cleanUp),
    });
    try {
      const session_id = await newSession(client);
      // Longer than ten seconds, the least that a call waits; shorter than the timeout of a silent client.
      const reply = await client.call("execute_code", { session_id, code: "time.sleep(14)\n'slept'", ...args });
      expect(reply.execution.status).toBe(status);
      const whole = await client.call("wait", { session_id, wait_s: 9 });
      expect(whole.structured).toMatchObject({ status: "ok", result: "'slept'" });
    } finally {
      for (const cleanUp of cleanUps) await cleanUp();
    }
  });
});

describeWithMicropip("packages", (micropip) => {
  const folder = shared(async (atEnd) => {
    const wheels = mkdtempSync(join(tmpdir(), "cellwright-wheels-"));
    atEnd(() => rmSync(wheels, { recursive: true, force: true }));
    const names = ["declared-one", "imported-one", "initial-one"];
    for (const { file, data } of [micropip, ...names.map((name) => wheel(name))])
      writeFileSync(join(wheels, file), data);
    return wheels;
  });

  test("X-33 packages come by a script block, by an import or from the start; an unknown one is named", async () => {
    const closed = "http://127.0.0.1:1/";
    const places = ["--package-dir", folder(), "--package-index", closed, "--pyodide-base-url", closed];
    const client = await startStdio({ args: [...onWasm, ...places, "--packages", "initial-one"] });
    const wait_s = 110;
    const first = await client.run("import initial_one\ninitial_one.version", { wait_s });
    expect(first.structured).toMatchObject({ status: "ok", result: "'1.0'" });
    const { session_id } = first.execution;
    const block = '# /// script\n# dependencies = ["declared-one"]\n# ///\n';
    const run = async (code: string) => (await client.run(code, { session_id, wait_s })).structured;
    expect(await run(`${block}import declared_one\ndeclared_one.version`)).toMatchObject({ result: "'1.0'" });
    expect(await run("import imported_one\nimported_one.version")).toMatchObject({ result: "'1.0'" });
    const unknown = await run('# /// script\n# dependencies = ["no-such-package-here"]\n# ///\nprint("began")');
    expect(unknown).toMatchObject({ status: "error", stdout: "" });
    expect(JSON.stringify(unknown)).toContain("no-such-package-here");
    const twice = await client.run(`${block}\n${block}print("began")`, { session_id });
    expect(twice).toMatchObject({ isError: true, text: expect.stringMatching(/script.*Multiple script blocks found/) });
    // Imports of code that cannot be parsed are not examined.
    expect(await run("import no_such_module_here\ndef")).toMatchObject({ error: { name: "SyntaxError" } });
    expect(await run("'unharmed'")).toMatchObject({ status: "ok", result: "'unharmed'" });
  });
});

describe("values in and out", () => {
  const program = sharedProgram(onWasm);

  test("X-34 values arrive as they are, and images as image_0, image_1, …", async () => {
    const client = program();
    const variables = {
      whole: 7,
      fraction: 2.5,
      text: 'quotes \'"""\' and\nlines, é, \u{1F4CA}',
      nothing: null,
      yes: true,
      list: [1, [2, "x"], null],
      dict: { a: { b: [1.5] }, "not a name": false },
    };
    const names = Object.keys(variables);
    const code = `import json\nprint(json.dumps([${names.join(", ")}]))\nnothing is None, yes is True, type(dict)`;
    const { structured } = await client.run(code, { variables });
    expect(JSON.parse(String(structured?.stdout))).toEqual(Object.values(variables));
    expect(structured?.result).toMatch(/^\(True, True, .*dict.*\)$/);
    const [one, two] = [Buffer.from("one picture"), Buffer.from("another")].map((bytes) => bytes.toString("base64"));
    const images = await client.run("image_0, image_1, 'image' in globals()", {
      images: [one, `data:image/png;base64,${two}`],
    });
    expect(images.structured?.result).toBe("(b'one picture', b'another', False)");
    const single = await client.run("image_0 == image", { images: [one] });
    expect(single.structured?.result).toBe("True");
  });

  test("X-35 the value of the last expression is there as JSON, whatever it is, and variables stay", async () => {
    const client = program();
    const session_id = await newSession(client, "import datetime, dataclasses, decimal, enum, uuid");
    const values: Record<string, unknown> = {
      None: null,
      "'text'": "text",
      "''": "",
      "1.5": 1.5,
      True: true,
      "[1, [2, None]]": [1, [2, null]],
      "{'a': {'b': 2}}": { a: { b: 2 } },
      "(1, 2)": [1, 2],
      "{3}": [3],
      "datetime.date(2026, 1, 2)": "2026-01-02",
      "b'x'": "x",
      "float('nan'), float('-inf')": ["NaN", "-Infinity"],
      "decimal.Decimal('1.10')": "1.10",
      "2**70": "1180591620717411303424",
      "range(3)": "range(0, 3)",
      "dataclasses.make_dataclass('Point', ['x', 'y'])(1, 2)": { x: 1, y: 2 },
    };
    for (const [code, value] of Object.entries(values)) {
      const { structured, text } = await client.run(code, { session_id });
      expect({ code, value: structured?.value }).toEqual({ code, value });
      expect(text).not.toContain("vnd.cellwright");
    }
    await client.run("kept = (1, {'a'})", { session_id });
    expect((await client.run("kept", { session_id })).structured).toMatchObject({
      value: [1, ["a"]],
      result: "(1, {'a'})",
    });
    expect((await client.run("1/0", { session_id })).structured).toMatchObject({ value: null, status: "error" });
  });
});
