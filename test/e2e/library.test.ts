import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { temporaryDataDir } from "../support/program.ts";

const run = promisify(execFile);
const repository = fileURLToPath(new URL("../..", import.meta.url));

describe("the library", () => {
  test("the example in the README compiles and runs as printed", async () => {
    const [, example = ""] =
      /## As a library\n\n```ts\n(.*?)```/s.exec(readFileSync(join(repository, "README.md"), "utf8")) ?? [];
    // Inside the repository, so that `cellwright` means this package.
    mkdirSync(join(repository, ".cache"), { recursive: true });
    const folder = mkdtempSync(join(repository, ".cache", "example-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(join(folder, "example.mts"), example);
    const compiler = [
      "--ignoreConfig",
      "--strict",
      "--skipLibCheck",
      "--module",
      "nodenext",
      "--target",
      "es2023",
      "--types",
      "node",
    ];
    await run(
      process.execPath,
      [join(repository, "node_modules/typescript/bin/tsc"), ...compiler, join(folder, "example.mts")],
      {
        cwd: repository,
      },
    ).catch((error) => {
      throw new Error(error.stdout);
    });
    const env = { ...process.env, XDG_DATA_HOME: join(temporaryDataDir(), "data") };
    const { stdout } = await run(process.execPath, [join(folder, "example.mjs")], { env });
    expect(stdout).toBe("stream\nresult\ndone\nok\n");
  }, 120_000);

  test("gives sessions, events as they come, files and variables, and leaves nothing running", async () => {
    const { createCellwright } = await import("../../dist/index.js");
    const cellwright = await createCellwright({ dataDir: temporaryDataDir(), warm: 0 });
    const session = await cellwright.createSession({ name: "from code" });
    const cell = session.execute("print(greeting)\nopen('a.txt', 'w').write(greeting)", {
      variables: { greeting: "hello" },
    });
    const events = [];
    for await (const event of cell.events()) events.push(event.type);
    expect(events).toEqual(["stream", "result", "done"]);
    expect(await cell.finished).toMatchObject({ status: "ok", files: [{ path: "a.txt", change: "created" }] });
    expect(await session.inspect({ name: "greeting", maxChars: 100 })).toMatchObject([{ type: "str" }]);
    expect((await cellwright.getSession("from code")).id).toBe(session.id);
    expect(await cellwright.listSessions()).toHaveLength(1);
    await cellwright.dispose();
    await cellwright.dispose();
    await expect(cellwright.createSession()).rejects.toMatchObject({ code: "shutting_down" });
  });
});
