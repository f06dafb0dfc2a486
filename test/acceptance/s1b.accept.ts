/** jupyter-interpreter-mcp 0.4.0: its eight tools, over stdio, on a real Jupyter server. Each name begins with its case. */

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Sessions } from "../../src/engine/sessions/sessions.ts";
import { createLog } from "../../src/log.ts";
import { defaultOptions } from "../../src/options/options.ts";
import { defaultsOf } from "../../src/options/spec.ts";
import { toolset } from "../../src/toolsets/jupyter-interpreter-mcp/toolset-04.ts";
import { openLocalWorkspace } from "../../src/workspace/local/workspace.ts";
import { createFakeProvider } from "../support/fake-kernel.ts";
import { openMemoryStore } from "../support/memory-store.ts";
import { temporaryDataDir, until } from "../support/program.ts";
import { describeWith } from "../support/requirements.ts";
import data from "./data/jupyter-interpreter-mcp-04.json" with { type: "json" };
import { leaveAtOnce, type S1Program, S1Server } from "./s1-support.ts";
import { textOf } from "./toolset-program.ts";

const NAME = "jupyter-interpreter-mcp@0.4";
const uuid4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const isoTime = "\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?Z";

describeWith("jupyterServer", "S1b jupyter-interpreter-mcp 0.4.0", (python) => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  const atEnd = (cleanUp: () => void | Promise<void>) => void cleanUps.unshift(cleanUp);
  let server: S1Server;
  let program: S1Program;
  let id: string;
  /** The user's own files. */
  let host: string;

  beforeAll(async () => {
    host = realpathSync(mkdtempSync(join(tmpdir(), "cw-s1b-")));
    atEnd(() => rmSync(host, { recursive: true, force: true }));
    for (const name of ["work", "other", "third"]) mkdirSync(join(host, name));
    server = await S1Server.start(python, NAME, atEnd);
    program = await server.program({ atEnd, cwd: join(host, "work") });
    id = String((await program.ask("create_session")).session_id);
  });
  afterAll(async () => {
    for (const cleanUp of cleanUps) await cleanUp();
  });

  const ask = (tool: string, args: Record<string, unknown> = {}) => program.ask(tool, { session_id: id, ...args });
  const put = (name: string, content: string | Buffer) => {
    const path = server.file(id, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  };
  const edit = (path: string, old_string: string, new_string: string, more = {}) =>
    ask("edit_file", { path, old_string, new_string, ...more });

  test("S1-29 exactly eight tools, with their defaults", async () => {
    const { tools } = await program.client.listTools();
    expect(tools.map(({ name, inputSchema }) => ({ name, inputSchema }))).toEqual(data.tools);
    for (const { description } of tools) expect(description).toBeTruthy();
    expect(program.client.getServerVersion()).toMatchObject({ name: "Code Interpreter", version: "0.4.0" });
  });

  test("S1-30 two sessions with folders of their own; none where there are no kernels", async () => {
    const ids = [await program.ask("create_session"), await program.ask("create_session")].map((made) =>
      String(made.session_id),
    );
    expect(new Set(ids).size).toBe(2);
    for (const each of ids) {
      expect(each).toMatch(uuid4);
      const meta = JSON.parse(server.text(each, "session_meta.json"));
      expect(meta).toEqual({ created_at: expect.any(Number), last_access: expect.any(Number) });
      const { result } = await program.run("import os; os.getcwd()", each);
      expect(result).toEqual([`Execution Result: '${server.file(each)}'`]);
    }
    const own = await S1Server.start(python, NAME, onTestFinished);
    const alone = await own.program();
    await own.jupyter.kill();
    expect(await alone.ask("create_session")).toEqual({
      error: expect.stringMatching(/^Failed to create session: [^\n]+$/),
    });
  });

  test("S1-31 a session that is not named, or not known", async () => {
    const reply = await program.call("execute_code", { code: "1" });
    expect(reply.isError).toBe(true);
    expect(textOf(reply)).toContain("session_id");
    for (const unknown of ["nope", "00000000-0000-4000-8000-000000000000", "..", "a/b", "a%2Fb", "x".repeat(10_000)]) {
      const { error, result } = await program.run("1", unknown);
      expect({ error, result }).toEqual({ error: [`Session ${unknown} not found`], result: [] });
      expect(await program.ask("read_file", { session_id: unknown, path: "x" })).toEqual({
        error: `Session ${unknown} not found`,
      });
    }
  });

  describe("S1-32", () => {
    test("S1-32 a lifetime is over when it is exceeded, and 0 is no lifetime", async () => {
      const clock = { ms: 1_000_000 };
      const world = (sessionTtl: number) => {
        const store = openMemoryStore();
        const { tools, guest } = toolset.create(defaultsOf(toolset.options));
        const sessions = new Sessions({
          provider: createFakeProvider(),
          store,
          openWorkspace: openLocalWorkspace,
          log: createLog("silent"),
          defaultTimeoutMs: 10_000,
          ttlMs: sessionTtl,
          guest: guest?.({ draw: async () => ({ failure: "" }) }),
          keepDays: 3650,
          maxSessions: 5,
          warm: 0,
          now: () => clock.ms,
        });
        onTestFinished(async () => {
          await sessions.dispose();
          await store.dispose();
        });
        const options = { ...defaultOptions(), sessionTtl };
        const context = { sessions, store, options, owner: "local", signal: new AbortController().signal };
        return async (tool: string, args: Record<string, unknown> = {}) => {
          const found = tools.find(({ name }) => name === tool);
          const reply = await found?.run(found.input.parse(args), {
            ...context,
            local: true,
            progress: () => {},
            printed: () => {},
            tell: () => {},
          });
          return (reply as { structured: Record<string, unknown> }).structured;
        };
      };
      const call = world(60_000);
      const { session_id } = await call("create_session");
      const list = () => call("list_dir", { session_id });
      clock.ms += 59_999;
      expect(await list()).toMatchObject({ error: "" });
      clock.ms += 60_000;
      expect(await list()).toMatchObject({ error: "" });
      clock.ms += 60_001;
      expect(await list()).toEqual({ error: `Session ${session_id} has expired`, result: [] });
      expect(await call("execute_code", { session_id, code: "x" })).toMatchObject({
        error: [`Session ${session_id} has expired`],
        result: [],
      });
      const forEver = world(0);
      const eternal = (await forEver("create_session")).session_id;
      clock.ms += 365 * 86_400_000;
      expect(await forEver("list_dir", { session_id: eternal })).toMatchObject({ error: "" });
    });

    test("a lifetime that is not a number is reported at the start", () => {
      const { status, stderr, stdout } = leaveAtOnce(["--toolset", NAME, ...server.args], {
        env: { SESSION_TTL: "abc" },
      });
      expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
      expect(stderr).toMatch(/^Invalid configuration: SESSION_TTL `abc`: .+\n$/);
    });
  });

  test("S1-33 a file in new folders, counted in bytes", async () => {
    const path = "a/b/hé.txt";
    expect(await ask("write_file", { path, content: "é\n" })).toEqual({ status: "ok", path, bytes_written: 3 });
    expect(server.text(id, path)).toBe("é\n");
  });

  test("S1-34 paths that cannot be written to", async () => {
    const empty = "Invalid path: destination path must not be empty.";
    const slash = "Invalid path: destination path must not end with '/'; please provide a file name.";
    expect(await ask("write_file", { path: "", content: "x" })).toEqual({ error: empty });
    expect(await ask("write_file", { path: "  ", content: "x" })).toEqual({ error: empty });
    expect(await ask("write_file", { path: "d/", content: "x" })).toEqual({ error: slash });
    // Checked before everything else.
    expect(await program.ask("write_file", { session_id: "nope", path: ".ssh/", content: "x" })).toEqual({
      error: slash,
    });
  });

  test("S1-35 a window of a file", async () => {
    put("five.txt", "one\ntwo\nthree\nfour\nfive\n");
    expect(await ask("read_file", { path: "five.txt", offset: 2, limit: 2 })).toEqual({
      lines: ["2: two", "3: three"],
      total_lines: 5,
      offset: 2,
      limit: 2,
      truncated: true,
      path: "five.txt",
    });
    const whole = await ask("read_file", { path: "five.txt", offset: "1" });
    expect(whole).toMatchObject({ total_lines: 5, offset: 1, limit: 200, truncated: false });
    put("odd.txt", "a\fb\u2028c\rd\r\ne");
    expect((await ask("read_file", { path: "odd.txt" })).lines).toEqual(["1: a", "2: b", "3: c", "4: d", "5: e"]);
  });

  test("S1-36 windows that are none", async () => {
    put("five.txt", "1\n2\n3\n4\n5\n");
    expect(await ask("read_file", { path: "five.txt", offset: 0 })).toEqual({ error: "offset must be >= 1" });
    expect(await ask("read_file", { path: "five.txt", limit: 0 })).toEqual({ error: "limit must be >= 1" });
    const after = await ask("read_file", { path: "five.txt", offset: 99 });
    expect(after).toMatchObject({ lines: [], truncated: false, total_lines: 5 });
    // Checked before everything else.
    const both = { session_id: "nope", path: ".env", offset: 0, limit: 0 };
    expect(await program.ask("read_file", both)).toEqual({ error: "offset must be >= 1" });
  });

  test("S1-37 what cannot be read as text", async () => {
    const binary = "Binary files cannot be read with read_file. Use download_file to retrieve binary content.";
    put("plot.png", Buffer.from([0x89, 0x50, 0x4e, 0x47, 0xff, 0x00]));
    put("wrong.txt", Buffer.from([0x61, 0xff]));
    expect(await ask("read_file", { path: "plot.png" })).toEqual({ error: binary });
    expect(await ask("read_file", { path: "wrong.txt" })).toEqual({ error: binary });
    expect(await ask("read_file", { path: "no/file.txt" })).toEqual({ error: "File not found: no/file.txt" });
    put(".hidden", "x");
    expect(await ask("read_file", { path: ".hidden" })).toEqual({ error: "File not found: .hidden" });
  });

  test("S1-38 a file as a whole", async () => {
    const bytes = Buffer.from(Array.from({ length: 200 }, (_, index) => index + 100));
    put("deep/text.txt", "héllo\r\n");
    put("plot.png", bytes);
    put("ascii.pkl", "just text");
    const text = { content: "héllo\r\n", encoding: "text", filename: "text.txt" };
    expect(await ask("download_file", { path: "deep/text.txt" })).toEqual(text);
    const plot = await ask("download_file", { path: "plot.png" });
    expect(plot).toMatchObject({ encoding: "base64", filename: "plot.png" });
    const lines = String(plot.content).split("\n");
    expect(lines.slice(0, -2).every((line) => line.length === 76)).toBe(true);
    expect(lines.at(-1)).toBe("");
    expect(Buffer.from(String(plot.content), "base64").equals(bytes)).toBe(true);
    const pickle = await ask("download_file", { path: "ascii.pkl" });
    expect(pickle).toEqual({ content: "anVzdCB0ZXh0\n", encoding: "base64", filename: "ascii.pkl" });
    expect(await ask("download_file", { path: "gone.txt" })).toEqual({ error: "File not found: gone.txt" });
  });

  test("S1-39 a folder's lines", async () => {
    put("mixed/b.txt", "x".repeat(12));
    put("mixed/A.csv", "x".repeat(1536));
    put("mixed/c.ipynb", "x".repeat(2 * 1024 * 1024));
    put("mixed/zed/inner.txt", "x");
    put("mixed/Able/inner.txt", "x");
    put("mixed/.hidden", "x");
    put("mixed/even.bin", "x".repeat(1280));
    const { result, error } = await ask("list_dir", { path: "mixed" });
    expect(error).toBe("");
    const expected = [
      "directory Able - modified: ",
      "directory zed - modified: ",
      "file A.csv (1.5 KB) - modified: ",
      "file b.txt (12 B) - modified: ",
      "notebook c.ipynb (2.0 MB) - modified: ",
      "file even.bin (1.2 KB) - modified: ",
    ];
    expect((result as string[]).map((line) => line.replace(new RegExp(`${isoTime}$`), ""))).toEqual(expected);
    const own = (await ask("list_dir")).result as string[];
    expect(own.some((line) => /^file session_meta\.json \(\d+ B\)/.test(line))).toBe(true);
  });

  test("S1-40 folders that are empty, files, or missing", async () => {
    mkdirSync(server.file(id, "empty"));
    put("file.txt", "x");
    expect(await ask("list_dir", { path: "empty" })).toEqual({ error: "", result: ["(empty directory)"] });
    expect(await ask("list_dir", { path: "file.txt" })).toEqual({ error: "Not a directory: file.txt", result: [] });
    expect(await ask("list_dir", { path: "no/folder" })).toEqual({
      error: `List directory failed: Path not found: sessions/${id}/no/folder`,
      result: [],
    });
  });

  test("S1-41 an exact edit", async () => {
    const tried: [before: string, old: string, replacement: string, after: string][] = [
      ["one\ntwo\n", "two", "2", "one\n2\n"],
      ["a\nb\nc\n", "a\nb", "x", "x\nc\n"],
      ["grüße 😀", "😀", "ok", "grüße ok"],
      ["no end", "end", "END", "no END"],
      ["keep drop", " drop", "", "keep"],
    ];
    for (const [before, old, replacement, after] of tried) {
      put("edit.txt", before);
      expect(await edit("edit.txt", old, replacement)).toEqual({ status: "ok", path: "edit.txt", replacements: 1 });
      expect(server.text(id, "edit.txt")).toBe(after);
    }
  });

  test("S1-42 edits that are refused", async () => {
    put("edit.txt", "a a a\n");
    put("edit.bin", Buffer.from([0xff, 0x61]));
    const none =
      "old_string not found in file. Verify that old_string exactly matches the text you want to replace (including surrounding context, whitespace, and indentation).";
    const several =
      "Found 3 occurrences of old_string. Provide more surrounding context to uniquely identify the target location, or set replace_all=True to replace every occurrence.";
    const empty = "old_string must not be empty; use write_file to create or overwrite files";
    const binary = "Binary files cannot be edited with edit_file. Use execute_code to manipulate binary content.";
    expect(await edit("edit.txt", "zzz", "x")).toEqual({ error: none });
    expect(await edit("edit.txt", "a", "x")).toEqual({ error: several });
    expect(await edit("edit.txt", "", "x")).toEqual({ error: empty });
    expect(await edit("edit.bin", "a", "x")).toEqual({ error: binary });
    // Only for text that exists.
    expect(await edit("gone.txt", "", "x")).toEqual({ error: "File not found: gone.txt" });
    expect(await edit("edit.bin", "", "x")).toEqual({ error: binary });
    expect(server.text(id, "edit.txt")).toBe("a a a\n");
  });

  test("S1-43 every occurrence", async () => {
    put("edit.txt", "a a a\n");
    expect(await edit("edit.txt", "a", "b", { replace_all: true })).toMatchObject({ replacements: 3 });
    expect(server.text(id, "edit.txt")).toBe("b b b\n");
  });

  test("S1-44 other blanks, and another indent", async () => {
    for (const [before, old, after] of [
      ["  one\ntwo\n", "one  ", "X\ntwo\n"],
      ["one   \ntwo\n", "one", "X\ntwo\n"],
      ["        if x:\n            go()\n", "if x:\n    go()", "X\n"],
    ] as const) {
      put("edit.txt", before);
      expect(await edit("edit.txt", old, "X")).toMatchObject({ replacements: 1 });
      expect(server.text(id, "edit.txt")).toBe(after);
    }
  });

  test("S1-45, S1-46 overlapping matches, matches before blanks, and how many there are", async () => {
    put("edit.txt", "aaa");
    expect(await edit("edit.txt", "aa", "X", { replace_all: true })).toMatchObject({ replacements: 1 });
    expect(server.text(id, "edit.txt")).toBe("Xa");
    put("edit.txt", "x = foo  \n");
    expect(await edit("edit.txt", "foo", "bar")).toMatchObject({ replacements: 1 });
    expect(server.text(id, "edit.txt")).toBe("x = bar  \n");
    put("edit.txt", "x = foo  \ny = foo\n");
    expect((await edit("edit.txt", "foo", "bar")).error).toMatch(/^Found 2 occurrences of old_string\./);
  });

  test("S1-47 line ends stay as they were", async () => {
    put("edit.txt", "  one\r\n  two\r\nthree\r\n");
    expect(await edit("edit.txt", "one\ntwo", "1\n2")).toMatchObject({ replacements: 1 });
    expect(server.text(id, "edit.txt")).toBe("1\r\n2\r\nthree\r\n");
  });

  test("S1-48 nothing is changed into itself once", async () => {
    put("edit.txt", "same  \nother\n");
    expect(await edit("edit.txt", "same", "same")).toMatchObject({ replacements: 1 });
    expect(server.text(id, "edit.txt")).toBe("same  \nother\n");
  });

  const fileCalls = (path: string): [tool: string, args: Record<string, unknown>][] => [
    ["read_file", { path }],
    ["download_file", { path }],
    ["list_dir", { path }],
    ["write_file", { path, content: "x" }],
    ["edit_file", { path, old_string: "a", new_string: "b" }],
    ["upload_file_path", { host_path: join(host, "work/up.txt"), destination_path: path }],
  ];

  test("S1-49 paths that lead out", async () => {
    writeFileSync(join(host, "work/up.txt"), "x");
    writeFileSync(join(server.jupyter.home, "outside.txt"), "outside");
    symlinkSync("../../outside.txt", server.file(id, "link.txt"));
    symlinkSync(server.jupyter.home, server.file(id, "absolute"));
    for (const path of ["..", "a/../../b", "/etc/passwd", "link.txt", "absolute/outside.txt"]) {
      for (const [tool, args] of fileCalls(path)) {
        const answer = await ask(tool, args);
        expect([tool, path, answer.error]).toEqual([tool, path, `Path '${path}' escapes session directory`]);
      }
    }
    expect(readFileSync(join(server.jupyter.home, "outside.txt"), "utf8")).toBe("outside");
    put("b.txt", "fine\n");
    expect((await ask("read_file", { path: "a/../b.txt" })).lines).toEqual(["1: fine"]);
    expect((await ask("read_file", { path: server.file(id, "b.txt") })).lines).toEqual(["1: fine"]);
  });

  test("S1-50 names that usually hold secrets", async () => {
    const names = [
      ...[".env", ".ENV", ".env.local", "deep/.env.prod", ".ssh/config", ".ssh", "x/.gnupg/key", ".aws/credentials"],
      ...[".docker/config.json", "credentials", "Credentials.json", "credentials.yaml", "credentials.yml", ".netrc"],
      ...["id_rsa", "id_rsa.pub", "id_ed25519", "id_ed25519.pub", "id_ecdsa", "id_ecdsa.pub", ".npmrc", ".pypirc"],
      ...["secret", "secrets", "secret.json", "secrets.yaml", "secrets.yml", "secrets.txt"],
      ...["token", "tokens", "token.json", "tokens.yaml", "token.yml", "TOKENS.TXT", ".git-credentials"],
    ];
    for (const path of names) {
      const name = path.slice(path.lastIndexOf("/") + 1);
      const expected = `Access blocked: '${name}' matches a sensitive file pattern`;
      for (const [tool, args] of fileCalls(path).slice(0, 5)) {
        // Checked before the session.
        const answer = await program.ask(tool, { session_id: "nope", ...args });
        expect([tool, path, answer.error]).toEqual([tool, path, expected]);
      }
    }
    expect((await ask("read_file", { path: ".ssh/" })).error).toBe(
      "Access blocked: '' matches a sensitive file pattern",
    );
    for (const path of ["environment.txt", "tokenizer.py", "secretary.md"]) {
      expect(await ask("write_file", { path, content: "x\n" })).toMatchObject({ status: "ok" });
      expect((await ask("read_file", { path })).lines).toEqual(["1: x"]);
    }
  });

  test("S1-51 a link to such a name", async () => {
    put(".env", "KEY=1\n");
    symlinkSync(".env", server.file(id, "notes.txt"));
    for (const [tool, args] of fileCalls("notes.txt").slice(0, 5)) {
      expect([tool, (await ask(tool, args)).error]).toEqual([tool, expect.stringMatching(/^Access blocked: '/)]);
    }
  });

  test("S1-52 an upload", async () => {
    const host_path = join(host, "work/data.csv");
    writeFileSync(host_path, "1,2\n");
    const destination_path = "in/data.csv";
    expect(await ask("upload_file_path", { host_path, destination_path })).toEqual({
      status: "success",
      sandbox_path: destination_path,
      size: "4",
    });
    expect((await program.run("open('in/data.csv').read()", id)).result).toEqual(["Execution Result: '1,2\\n'"]);
  });

  const upload = (host_path: string, destination_path = "up.txt", more = {}) =>
    ask("upload_file_path", { host_path, destination_path, ...more });

  test("S1-53 files that cannot be uploaded", async () => {
    const inWork = (name: string) => join(host, "work", name);
    mkdirSync(inWork("folder"), { recursive: true });
    writeFileSync(inWork("closed.txt"), "x");
    chmodSync(inWork("closed.txt"), 0);
    expect(await upload("data.csv")).toEqual({ error: "Host path must be absolute: data.csv" });
    expect(await upload(inWork("gone.txt"))).toEqual({ error: `Host file not found: ${inWork("gone.txt")}` });
    expect(await upload(inWork("folder"))).toEqual({ error: `Host path is not a file: ${inWork("folder")}` });
    // Root can read everything.
    if (process.getuid?.() === 0) return;
    expect(await upload(inWork("closed.txt"))).toEqual({
      error: `Permission denied: cannot read ${inWork("closed.txt")}`,
    });
  });

  test("S1-54 uploads come from the working directory, if nothing else is said", async () => {
    const outside = join(host, "other/x.txt");
    writeFileSync(outside, "x");
    symlinkSync(outside, join(host, "work/link-out.txt"));
    const refused = (path: string) => ({ error: `Path '${path}' is outside allowed upload directories` });
    expect(await upload(outside)).toEqual(refused(outside));
    expect(await upload(join(host, "work/link-out.txt"))).toEqual(refused(join(host, "work/link-out.txt")));
    expect(await upload(join(host, "work/../other/x.txt"))).toEqual(refused(join(host, "work/../other/x.txt")));
  });

  test("S1-55 folders that uploads may come from", async () => {
    for (const name of ["work", "other", "third"]) writeFileSync(join(host, name, "file.txt"), name);
    const allowedBy = async (args: string[], env: Record<string, string> = {}) => {
      const own = await server.program({ args, env, cwd: join(host, "work") });
      const { session_id } = await own.ask("create_session");
      const allowed: string[] = [];
      for (const name of ["work", "other", "third"]) {
        const host_path = join(host, name, "file.txt");
        const { error } = await own.ask("upload_file_path", { session_id, host_path, destination_path: "x.txt" });
        if (error === undefined) allowed.push(name);
      }
      await own.close();
      return allowed;
    };
    const options = ["--allowed-dir", join(host, "other"), "--allowed-dir", join(host, "third")];
    const list = { ALLOWED_UPLOAD_DIRS: `:${join(host, "third")}: :` };
    expect(await allowedBy(options)).toEqual(["other", "third"]);
    expect(await allowedBy([], list)).toEqual(["third"]);
    expect(await allowedBy(["--allowed-dir", join(host, "other")], list)).toEqual(["other"]);
    expect(await allowedBy([], { ALLOWED_UPLOAD_DIRS: "::" })).toEqual(["work"]);
    expect(await allowedBy(["--allow-all"], list)).toEqual(["work", "other", "third"]);
  }, 120_000);

  test("S1-56 secrets are not uploaded, whatever is allowed", async () => {
    const own = await server.program({ args: ["--allow-all"] });
    const { session_id } = await own.ask("create_session");
    for (const name of [".env.local", "id_rsa.pub"]) {
      const host_path = join(host, "other", name);
      writeFileSync(host_path, "x");
      symlinkSync(host_path, join(host, "other", `link-${name}.txt`));
      const blocked = (given: string) => ({ error: `Upload blocked: '${given}' matches a sensitive file pattern` });
      const args = { session_id, destination_path: "x.txt" };
      expect(await own.ask("upload_file_path", { ...args, host_path })).toEqual(blocked(name));
      const link = join(host, "other", `link-${name}.txt`);
      expect(await own.ask("upload_file_path", { ...args, host_path: link })).toEqual(blocked(`link-${name}.txt`));
    }
  });

  test("S1-57 a file that is there already", async () => {
    const path = join(host, "work/again.txt");
    writeFileSync(path, "first");
    expect(await upload(path, "again.txt")).toMatchObject({ status: "success" });
    writeFileSync(path, "second");
    expect(await upload(path, "again.txt", { overwrite: false })).toEqual({
      error: "Destination already exists: again.txt (set overwrite=True to replace)",
    });
    expect(server.text(id, "again.txt")).toBe("first");
    expect(await upload(path, "again.txt", { overwrite: true })).toMatchObject({ status: "success" });
    expect(server.text(id, "again.txt")).toBe("second");
    expect(await upload(path, "new/again.txt", { overwrite: false })).toMatchObject({ status: "success" });
  });

  test("S1-58 a file that is too large", async () => {
    const path = join(host, "work/big.bin");
    openSync(path, "w");
    truncateSync(path, 104_857_601);
    const error = "File too large to upload (104,857,601 bytes). Maximum supported size is 104,857,600 bytes (100 MB).";
    expect(await upload(path)).toEqual({ error });
    rmSync(path);
  });

  test("S1-59 a session comes back when it is used, or at once, and from a folder that others left", async () => {
    const dataDir = temporaryDataDir();
    const first = await server.program({ dataDir });
    const made = String((await first.ask("create_session")).session_id);
    await first.run("kept = 7", made);
    await first.ask("write_file", { session_id: made, path: "a.txt", content: "x\n" });
    await first.close();
    renameSync(server.file(made, "session_meta.json"), server.file(made, "other-name.json"));

    const again = await server.program({ dataDir });
    expect((await again.ask("read_file", { session_id: made, path: "a.txt" })).lines).toEqual(["1: x"]);
    expect((await again.run("kept", made)).result).toEqual(["Execution Result: 7"]);
    await again.close();

    // Written by another program: this server does not know it.
    const left = "11111111-2222-4333-8444-555555555555";
    mkdirSync(server.file(left));
    writeFileSync(server.file(left, "meta.json"), JSON.stringify({ created_at: 1.5e9, last_access: 1.6e9 }));
    writeFileSync(server.file(left, "history.txt"), "\nleft = 8\n");
    const fresh = await server.program();
    expect(await fresh.ask("list_dir", { session_id: left })).toMatchObject({ error: "" });
    expect((await fresh.run("left", left)).result).toEqual(["Execution Result: 8"]);
    await fresh.close();

    const own = await S1Server.start(python, NAME, onTestFinished);
    mkdirSync(own.file(left), { recursive: true });
    writeFileSync(own.file(left, "meta.json"), JSON.stringify({ created_at: 1.5e9, last_access: 1.6e9 }));
    writeFileSync(own.file(left, "history.txt"), "\nopen('woken', 'w').close()\n\nraise ValueError\n\nleft = 8\n");
    const eager = await own.program({ args: ["--restore-sessions-on-startup"] });
    await until("the session to be restored", () => own.has(left, "woken"), 30_000);
    const { result } = await eager.run("left", left);
    expect(result).toEqual(["Restore warning: cell 2 failed: ValueError: ", "Execution Result: 8"]);
    expect((await eager.run("left", left)).result).toEqual(["Execution Result: 8"]);
  }, 120_000);

  test("S1-60 a value outlives two restarts, and no kernel is left over", async () => {
    const own = await S1Server.start(python, NAME, onTestFinished);
    const dataDir = temporaryDataDir();
    const first = await own.program({ dataDir });
    const made = String((await first.ask("create_session")).session_id);
    await first.run("kept = 7", made);
    await first.close();
    expect(await own.kernels()).toEqual([]);
    const history = own.text(made, "history.txt");
    expect(history).toBe("\nkept = 7\n");
    for (const _ of [1, 2]) {
      const again = await own.program({ dataDir });
      expect((await again.run("if kept != 7: raise ValueError\nraise KeyError('kept')", made)).error).toEqual([
        "Error: KeyError: 'kept'",
      ]);
      expect(own.text(made, "history.txt")).toBe(history);
      await again.close();
    }
    expect(await own.kernels()).toEqual([]);
    // When it is killed, its kernel becomes an orphan, which the next one adopts.
    const crashing = await own.program({ dataDir });
    await crashing.run("live = object(); mark = id(live)", made);
    const before = await own.kernels();
    process.kill(crashing.pid, "SIGKILL");
    const next = await own.program({ dataDir });
    expect((await next.run("id(live) == mark", made)).result).toEqual(["Execution Result: True"]);
    await next.close();
    // All but the helper of the killed program, which is deleted once that program counts as dead.
    const left = await own.kernels();
    expect(before).toHaveLength(2);
    expect(left.filter((kernel) => !before.includes(kernel))).toEqual([]);
    expect(left.length).toBeLessThanOrEqual(1);
  }, 120_000);

  test("S1-61 a lifetime that passes takes kernel and folder", async () => {
    const own = await S1Server.start(python, NAME, onTestFinished);
    const short = await own.program({ args: ["--session-ttl", "3"] });
    const made = String((await short.ask("create_session")).session_id);
    expect(own.has(made)).toBe(true);
    await until("the sweep", () => !own.has(made), 30_000);
    // The helper kernel stays.
    await until("its kernel to end", async () => (await own.kernels()).length <= 1, 30_000);
    expect(await short.ask("list_dir", { session_id: made })).toEqual({
      error: `Session ${made} has expired`,
      result: [],
    });
  });

  test("nothing but the protocol is on standard output", () => {
    const request = {
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "x", version: "1" } },
    };
    const args = ["--toolset", NAME, ...server.args, "--restore-sessions-on-startup", "--log-level", "debug"];
    const { stdout } = spawnSync(process.execPath, ["dist/main.js", ...args, "--data-dir", temporaryDataDir()], {
      input: `${JSON.stringify(request)}\n`,
      encoding: "utf8",
      cwd: join(import.meta.dirname, "../.."),
      timeout: 120_000,
    });
    const lines = stdout.split("\n").filter((line) => line !== "");
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ jsonrpc: "2.0" });
  });

  test("example: the calls that the checklist's table shows, in their order of keys", async () => {
    const written = await program.call("write_file", { session_id: id, path: "order.txt", content: "x" });
    expect(textOf(written)).toBe('{\n  "status": "ok",\n  "path": "order.txt",\n  "bytes_written": 1\n}');
    const { reply } = await program.run("1", id);
    expect(textOf(reply)).toBe(
      `{\n  "error": [],\n  "result": [\n    "Execution Result: 1"\n  ],\n  "session_id": "${id}"\n}`,
    );
    const listed = await program.call("list_dir", { session_id: id, path: "gone" });
    expect(Object.keys(listed.structuredContent ?? {})).toEqual(["error", "result"]);
  });
});
