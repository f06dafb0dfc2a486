/** Files of sessions, across the replaced systems, with the native tools. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startStdio } from "../support/program.ts";
import { newSession, onWasm, read, shared } from "./x-support.ts";

describe("files", () => {
  const world = shared(async (atEnd) => {
    const mine = mkdtempSync(join(tmpdir(), "cellwright-mine-"));
    atEnd(() => rmSync(mine, { recursive: true, force: true }));
    const client = await startStdio({ args: [...onWasm, "--files-dir", mine], atEnd });
    return { client, mine, session_id: await newSession(client, "import os") };
  });
  const run = (code: string) => world().client.run(code, { session_id: world().session_id });
  const call = (tool: string, args: object) => world().client.call(tool, { session_id: world().session_id, ...args });
  const content = async (path: string) => (await read(world().client, `cell://${world().session_id}/${path}`)).text;

  test("X-27 files are reported when they are new, changed or deleted, wherever they are, and then no more", async () => {
    const write = (path: string, text: string) => `_ = open('${path}', 'w').write('${text}')`;
    const made = await run(["os.makedirs('a/b')", write("a/b/x.txt", "1"), write("a/x.txt", "22")].join("\n"));
    expect(made.structured?.files).toMatchObject([
      { path: "a/b/x.txt", change: "created", size_bytes: 1 },
      { path: "a/x.txt", change: "created", size_bytes: 2 },
    ]);
    expect((await run("pass")).structured?.files).toEqual([]);
    const changed = await run(write("a/x.txt", "333"));
    expect(changed.structured?.files).toMatchObject([{ path: "a/x.txt", change: "modified", size_bytes: 3 }]);
    const deleted = await run("os.remove('a/b/x.txt')");
    expect(deleted.structured?.files).toMatchObject([{ path: "a/b/x.txt", change: "deleted" }]);
    const listed = await call("list_files", { recursive: true });
    const { files } = listed.structured as { files: { path: string }[] };
    expect(files.map(({ path }) => path)).toEqual(expect.arrayContaining(["a", "a/b", "a/x.txt"]));
    expect(files.map(({ path }) => path)).not.toContain("a/b/x.txt");
  });

  test("X-29 a file is read with its own type, and no address leads out of the session", async () => {
    const { client, session_id } = world();
    const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=";
    const files = {
      "t.csv": ["1,2", "text/csv"],
      "t.json": ['{"a": 1}', "application/json"],
      "t.svg": ["<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"],
    };
    for (const [path, [text, mimeType]] of Object.entries(files)) {
      await call("write_file", { path, content: text });
      expect(await read(client, `cell://${session_id}/${path}`)).toMatchObject({ mimeType, text });
    }
    await call("write_file", { path: "t.png", content: png, encoding: "base64" });
    expect(await read(client, `cell://${session_id}/t.png`)).toMatchObject({ mimeType: "image/png", blob: png });
    await call("write_file", { path: "t.unknownext", content: "x" });
    const unknown = await read(client, `cell://${session_id}/t.unknownext`);
    expect(unknown).toMatchObject({ mimeType: "application/octet-stream", blob: "eA==" });

    writeFileSync(join(client.dataDir, "secret.txt"), "secret");
    const workspace = join(client.dataDir, "sessions", session_id, "workspace");
    symlinkSync("/etc/passwd", join(workspace, "link"));
    symlinkSync("../../..", join(workspace, "up"));
    const paths = ["../../../secret.txt", "/etc/passwd", "link", "up/secret.txt", "a/../../../../secret.txt"];
    for (const path of paths) {
      for (const written of [path, encodeURIComponent(path), path.replaceAll("..", "%2e%2e")])
        await expect(read(client, `cell://${session_id}/${written}`)).rejects.toThrow();
      const reply = await call("read_file", { path });
      expect(reply.isError).toBe(true);
      expect(reply.text).not.toMatch(/^secret|root:/m);
    }
  });

  test("X-30 a file is brought in, written, read by lines, edited and taken out, within bounds", async () => {
    const { mine } = world();
    writeFileSync(join(mine, "in.csv"), "a,b\n1,2\n");
    expect((await call("import_file", { host_path: "in.csv", path: "data/in.csv" })).isError).toBe(false);
    expect((await run("open('data/in.csv').read()")).structured?.result).toBe("'a,b\\n1,2\\n'");

    const lines = Array.from({ length: 5 }, (_, index) => `line ${index + 1}`).join("\n");
    const written = await call("write_file", { path: "d/é/five.txt", content: lines });
    expect(written.isError).toBe(false);
    const page = await call("read_file", { path: "d/é/five.txt", offset_line: 2, limit_lines: 2 });
    expect(page.text).toMatch(/^line 2\nline 3\n\[/);

    const edit = (old_text: string, new_text: string, more = {}) =>
      call("edit_file", { path: "d/é/five.txt", old_text, new_text, ...more });
    expect((await edit("line 3\nline 4", "three\nfour")).isError).toBe(false);
    expect((await edit("line", "row")).text).toContain("3 times");
    expect((await edit("line", "row", { replace_all: true })).text).toContain("3 occurrences");
    expect((await edit("Row  1", "x")).text).toMatch(/not found in the file.*line 1: `row 1`/);
    expect(await content("d/%C3%A9/five.txt")).toBe("row 1\nrow 2\nthree\nfour\nrow 5");
    await call("write_file", { path: "crlf.txt", content: "one\r\ntwo\r\n" });
    await call("edit_file", { path: "crlf.txt", old_text: "one\ntwo", new_text: "1\n2" });
    expect(await content("crlf.txt")).toBe("1\r\n2\r\n");

    expect((await call("export_file", { path: "d/é/five.txt", host_path: "out/five.txt" })).isError).toBe(false);
    expect(readFileSync(join(mine, "out/five.txt"), "utf8")).toBe("row 1\nrow 2\nthree\nfour\nrow 5");

    writeFileSync(join(mine, ".env"), "SECRET=1");
    mkdirSync(join(mine, ".ssh"));
    writeFileSync(join(mine, ".ssh/id_rsa"), "secret");
    symlinkSync("/etc/passwd", join(mine, "passwd.txt"));
    for (const host_path of [".env", ".ssh/id_rsa", "passwd.txt", "../x", "/etc/passwd", "gone.txt", ".ssh"]) {
      expect({ host_path, ...(await call("import_file", { host_path })) }).toMatchObject({ host_path, isError: true });
    }
    for (const path of ["../x", "/etc/x", "a/../../x", ""]) {
      for (const [tool, more] of [
        ["read_file", {}],
        ["write_file", { content: "x" }],
        ["edit_file", { old_text: "a", new_text: "b" }],
        ["delete_file", {}],
        ["export_file", { host_path: "x" }],
      ] as const)
        expect({ tool, ...(await call(tool, { path, ...more })) }).toMatchObject({ tool, isError: true });
    }
  });
});
