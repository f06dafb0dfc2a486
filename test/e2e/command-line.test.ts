import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { programPath, temporaryDataDir } from "../support/program.ts";

/** Runs the program until it exits. */
function cellwright(
  args: string[],
  { cwd, env = {}, dataDir = temporaryDataDir() }: { cwd?: string; env?: object; dataDir?: string } = {},
) {
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    const options = { cwd: cwd ?? dataDir, env: { ...process.env, ...env } };
    execFile(process.execPath, [programPath, ...args, "--data-dir", dataDir], options, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === "number" ? error.code : error ? -1 : 0, stdout, stderr });
    });
  });
}

describe("cellwright run", () => {
  test("prints what a terminal would and exits with 0", async () => {
    const code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7";
    expect(await cellwright(["run", "-c", code])).toMatchObject({ code: 0, stdout: "out\n42\n", stderr: "err\n" });
  });

  test("exits with 1 on a Python error, with the traceback on stderr", async () => {
    const { code, stderr } = await cellwright(["run", "-c", "1 / 0"]);
    expect(code).toBe(1);
    expect(stderr).toContain("ZeroDivisionError");
  });

  test("runs a file and saves figures beside it", async () => {
    const dataDir = temporaryDataDir();
    const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=";
    const script = `import base64\nclass Figure:\n    def _repr_png_(self): return base64.b64decode("${png}")\ndisplay(Figure())\n`;
    await writeFile(join(dataDir, "plot.py"), script);
    const { code, stderr } = await cellwright(["run", "plot.py"], { dataDir });
    expect(stderr).toContain("saved figure-1.png");
    expect(code).toBe(0);
    expect((await readFile(join(dataDir, "figure-1.png"))).toString("base64")).toBe(png);
    await writeFile(join(dataDir, "figure-1.png"), "the user's own");
    expect((await cellwright(["run", "plot.py"], { dataDir })).stderr).toContain("saved figure-2.png");
    expect(await readFile(join(dataDir, "figure-1.png"), "utf8")).toBe("the user's own");
  });

  test("says where the files are that the code wrote", async () => {
    const { stderr } = await cellwright(["run", "-c", "open('a.txt', 'w').write('hi');"]);
    const path = /wrote (.*a\.txt)/.exec(stderr)?.[1] ?? "";
    expect(await readFile(path, "utf8")).toBe("hi");
  });
});

describe("cellwright", () => {
  test.each([
    [["--timeout", "soon"], "expected seconds"],
    [["frobnicate"], "Unknown command `frobnicate`"],
    [["run"], "needs a FILE"],
    [["run", "no-such-file.py"], "Cannot read"],
    [["serve", "--host", "0.0.0.0"], "--auth-token"],
    [["serve", "--port", "99999"], "expected a whole number from 0 to 65535"],
    [["--kernel", "docker"], "expected one of auto, wasm"],
    [["serve", "--host", "192.0.2.1", "--insecure"], "This machine has no address 192.0.2.1"],
    [["env"], "needs `create [NAME]`, `list` or `remove [NAME]`"],
    [["env", "create", "one", "two"], "Unexpected argument `two`"],
  ])("%j is refused with a sentence and exit code 2", async (args, sentence) => {
    const { code, stdout, stderr } = await cellwright(args);
    expect(code).toBe(2);
    expect(stdout).toBe("");
    expect(stderr).toContain(sentence);
    expect(stderr).not.toContain("    at ");
  });

  test("a port that is taken is named, with the way to another", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as AddressInfo;
    const { code, stderr } = await cellwright(["serve", "--port", String(port)]);
    other.close();
    expect(code).toBe(2);
    expect(stderr).toContain(`Port ${port} of 127.0.0.1 is in use by another program.`);
  });

  test("doctor shows which walls hold", async () => {
    const { code, stdout } = await cellwright(["doctor"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/ok {4}Kernel.*1 \+ 1 is 2/);
    expect(stdout).toMatch(/ok {4}Isolation.*Deno/);
  });

  test("clean asks first, and removes only Cellwright's folders", async () => {
    const dataDir = temporaryDataDir();
    await writeFile(join(dataDir, "mine.txt"), "mine");
    await cellwright(["run", "-c", "open('a.txt', 'w').write('hi');"], { dataDir });
    expect(await cellwright(["clean"], { dataDir })).toMatchObject({ code: 1 });
    expect((await cellwright(["clean", "--yes"], { dataDir })).stdout).toContain("Removed");
    expect(await readFile(join(dataDir, "mine.txt"), "utf8")).toBe("mine");
    expect((await cellwright(["clean", "--yes"], { dataDir })).stdout).toContain("Nothing to remove");
  });

  test("a variable of the environment sets an option", async () => {
    const { stderr, code } = await cellwright(["run", "-c", "1"], { env: { CELLWRIGHT_TIMEOUT: "never" } });
    expect(code).toBe(2);
    expect(stderr).toContain("CELLWRIGHT_TIMEOUT `never`");
  });

  test("--help and --version answer at once", async () => {
    expect((await cellwright(["--help"])).stdout).toContain("--memory-mb");
    expect((await cellwright(["--version"])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

describe("cellwright env", () => {
  test("list shows the managed environment that does not exist yet, and the command for it", async () => {
    const { code, stdout } = await cellwright(["env", "list"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^\* managed +managed +not ready/);
    expect(stdout).toContain("`cellwright env create`");
  });

  test("create without a Python on the machine is a sentence", async () => {
    const { code, stderr } = await cellwright(["env", "create"], { env: { PATH: "/nowhere" } });
    expect(code).toBe(1);
    expect(stderr).toContain("No suitable Python was found on the PATH, none. Install Python 3.10 or newer");
    expect(stderr).not.toContain("    at ");
  });

  test("removing an unknown environment is explained in a sentence", async () => {
    const { code, stderr } = await cellwright(["env", "remove", "nothing"]);
    expect(code).toBe(1);
    expect(stderr).toContain("There is no managed environment `nothing`. `cellwright env create` creates one.");
  });
});
