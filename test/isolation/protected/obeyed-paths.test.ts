import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { ObeyedPaths } from "../../../src/isolation/protected/obeyed-paths.ts";
import { protectedRoots, writeRules } from "../../../src/isolation/protected/protected-roots.ts";
import { createLog } from "../../../src/log.ts";
import { describeWith } from "../../support/requirements.ts";

let base: string;
let root: string;
let recordsDir: string;

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "cellwright-obeyed-")));
  onTestFinished(() => rmSync(base, { recursive: true, force: true }));
  root = join(base, "project");
  mkdirSync(root);
  recordsDir = join(base, "records");
});

const open = (lifted: string[] = []) => new ObeyedPaths({ recordsDir, lifted, log: createLog("silent") });
const names = () => readdirSync(root).sort();
const repository = () => {
  for (const folder of ["objects", "refs", "hooks"]) mkdirSync(join(root, ".git", folder), { recursive: true });
  writeFileSync(join(root, ".git", "HEAD"), "ref: refs/heads/main\n");
  writeFileSync(join(root, ".git", "config"), "[core]\n");
};

describe("mount points where hosts obey what is written", () => {
  test("are made where nothing is, and gone with the last kernel that needs them", async () => {
    mkdirSync(join(root, ".vscode"));
    writeFileSync(join(root, ".bashrc"), "alias l=ls\n");
    const places = open();
    const one = await places.hold([root]);
    const other = await places.hold([root]);
    for (const name of [".git", ".vscode", ".bashrc", ".mcp.json"]) {
      expect(one.paths).toContain(join(root, name));
      expect(existsSync(join(root, name)), name).toBe(true);
    }
    one.release();
    one.release();
    expect(names()).toContain(".mcp.json");
    other.release();
    expect(names()).toEqual([".bashrc", ".vscode"]);
    expect(readFileSync(join(root, ".bashrc"), "utf8")).toBe("alias l=ls\n");
  });

  test("are empty folders, which git and listings overlook", async () => {
    repository();
    const { paths, release } = await open().hold([root]);
    for (const path of paths) expect(lstatSync(path).isDirectory()).toBe(true);
    release();
    expect(names()).toEqual([".git"]);
    expect(readdirSync(join(root, ".git")).sort()).toEqual(["HEAD", "config", "hooks", "objects", "refs"]);
  });

  test("are empty files where git's settings include what is not there: it takes no folder for one", async () => {
    repository();
    writeFileSync(join(root, ".git", "config"), "[include]\n\tpath = ../settings\n[core]\n\thooksPath = hooks\n");
    const { paths, release } = await open().hold([root]);
    expect(paths).toEqual(expect.arrayContaining([join(root, "settings"), join(root, "hooks")]));
    expect(lstatSync(join(root, "settings"))).toMatchObject({ size: 0 });
    expect(lstatSync(join(root, "settings")).isFile()).toBe(true);
    expect(lstatSync(join(root, "hooks")).isDirectory()).toBe(true);
    await release();
    expect(names()).toEqual([".git"]);
    const again = await open().hold([root]);
    writeFileSync(join(root, "settings"), "[user]\n");
    await again.release();
    expect(names()).toEqual([".git", "settings"]);
  });

  test("cannot be all of the folder, which is said with the way out; a link on the way to one neither", async () => {
    repository();
    const refusal = () =>
      open()
        .hold([root])
        .catch((thrown) => `${thrown.message} ${thrown.hint}`);
    writeFileSync(join(root, ".git", "config"), "[core]\n\thooksPath = .\n");
    expect(await refusal()).toMatch(/Git.s core\.hooksPath is .*Set `core\.hooksPath`/s);
    writeFileSync(join(root, ".git", "config"), "[core]\n\thooksPath = tools/hooks\n");
    symlinkSync(base, join(root, "tools"));
    expect(await refusal()).toMatch(/tools` is a symbolic link.*--allow-write=\.git /s);
    const { release } = await open([join(root, ".git")]).hold([root]);
    await release();
  });

  test("stay if they were used or replaced meanwhile", async () => {
    const { release } = await open().hold([root]);
    writeFileSync(join(root, ".vscode", "settings.json"), "{}");
    rmdirSync(join(root, ".envrc"));
    writeFileSync(join(root, ".envrc"), "export A=1\n");
    rmdirSync(join(root, ".idea"));
    const between = mkdtempSync(join(root, "x"));
    mkdirSync(join(root, ".idea"));
    release();
    rmdirSync(between);
    expect(readFileSync(join(root, ".vscode", "settings.json"), "utf8")).toBe("{}");
    expect(readFileSync(join(root, ".envrc"), "utf8")).toBe("export A=1\n");
  });

  test("that a crashed program left are removed by the next one, which leaves those of a living one alone", async () => {
    await open().hold([root]);
    mkdirSync(join(root, "mine"));
    await open().sweep();
    expect(names()).toContain(".vscode");
    // As if another process, which is gone now, had created it.
    const { pid } = spawnSync("true");
    for (const file of readdirSync(recordsDir).map((name) => join(recordsDir, name))) {
      const made = readFileSync(file, "utf8").split("\n").slice(1);
      writeFileSync(file, [JSON.stringify({ pid }), ...made].join("\n"));
    }
    await open().sweep();
    expect(names()).toEqual(["mine"]);
    expect(readdirSync(recordsDir)).toEqual([]);
  });

  test("cannot be where the user has a symbolic link, which is said with the way out", async () => {
    mkdirSync(join(base, "shared"));
    symlinkSync(join(base, "shared"), join(root, ".claude"));
    const error = await open()
      .hold([root])
      .catch((thrown) => thrown);
    expect(error.code).toBe("kernel_start_failed");
    expect(error.message).toContain(".claude");
    expect(error.hint).toContain("--allow-write=.claude");
    expect(names()).toEqual([".claude"]);
    const { release } = await open([join(root, ".claude")]).hold([root]);
    release();
    expect(names()).toEqual([".claude"]);
  });
});

describeWith("bubblewrap", "a mount point", () => {
  test("that another program's jail stands on is not removed: its mount would go with it", async () => {
    const places = open();
    const { release } = await places.hold([root]);
    const vscode = join(root, ".vscode");
    const args = ["--ro-bind", "/", "/", "--bind", root, root, "--ro-bind", vscode, vscode, "--unshare-user"];
    const child = spawn("bwrap", [...args, "--", "sh", "-c", "echo up; read end"], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    await once(child.stdout, "data");
    release();
    expect(names()).toEqual([".vscode"]);
    const gone = once(child, "exit");
    child.stdin.end("\n");
    await gone;
    const next = await places.hold([root]);
    next.release();
    expect(names()).toEqual([]);
  });
});

describeWith("bubblewrap", "a mount point that a program outside replaces", () => {
  /** A shell in a jail with all of them, which runs commands and reports whether they succeeded. */
  async function jailed({ paths }: { paths: string[] }) {
    const pins = existsSync(join(root, ".git/HEAD")) ? ["--bind", join(root, ".git"), join(root, ".git")] : [];
    const mounts = paths.flatMap((path) => ["--ro-bind", path, path]);
    const walls = ["--unshare-user", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"];
    const args = [...walls, "--bind", root, root, ...pins, ...mounts];
    const loop = 'while read -r line; do if (eval "$line") 2>/dev/null; then echo yes; else echo no; fi; done';
    const child = spawn("bwrap", [...args, "--", "sh", "-c", `cd '${root}'; ${loop}`], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const ask = async (line: string) => {
      const answer = once(child.stdout, "data");
      child.stdin.write(`${line}\n`);
      return String((await answer)[0]).trim();
    };
    const mountsOf = () => readFileSync(`/proc/${inner}/mountinfo`, "utf8");
    expect(await ask("true")).toBe("yes");
    const inner = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim().split(" ")[0];
    return { ask, mountsOf };
  }

  test("is protected again, while the jail goes on", async () => {
    repository();
    const held = await open().hold([root]);
    onTestFinished(() => held.release());
    const { ask, mountsOf } = await jailed(held);
    expect(await ask("echo x >> .git/config")).toBe("no");
    // As `git config` does it.
    writeFileSync(join(root, ".git/config.lock"), "[a]\n");
    renameSync(join(root, ".git/config.lock"), join(root, ".git/config"));
    rmdirSync(join(root, ".vscode"));
    await vi.waitFor(() => {
      for (const path of [".git", ".vscode"]) expect(mountsOf()).toContain(` ${join(root, path)} ro,`);
    });
    const writes = ["echo x >> .git/config", "touch .git/index", "mkdir -p .vscode && touch .vscode/x"];
    for (const line of [...writes, "mv .git g", "rmdir .vscode"]) expect(await ask(line), line).toBe("no");
    expect(readFileSync(join(root, ".git/config"), "utf8")).toBe("[a]\n");
  });

  test("ends the kernel where that cannot be", async () => {
    const held = await open().hold([root]);
    onTestFinished(() => held.release());
    const lost = new Promise<string>((resolve) => held.onLost(resolve));
    // A jail in which the path is another file than outside.
    const other = join(base, "other");
    mkdirSync(other);
    const { ask } = await jailed({ paths: held.paths });
    expect(await ask("true")).toBe("yes");
    rmdirSync(join(root, ".vscode"));
    symlinkSync(other, join(root, ".vscode"));
    expect(await lost).toContain("`.vscode`");
  });
});

describe("what --allow-write says", () => {
  test("a protected name is the workspace's, and lifts the protection instead of being a folder of its own", () => {
    const rules = writeRules([".git", "/somewhere/else", ".git/hooks"], root);
    expect(rules).toEqual({ allowWrite: ["/somewhere/else", join(root, ".git/hooks")], lifted: [join(root, ".git")] });
    expect(writeRules([join(root, ".vscode")], root)).toEqual({ allowWrite: [], lifted: [join(root, ".vscode")] });
    expect(writeRules([join(root, "src")], root)).toEqual({ allowWrite: [join(root, "src")], lifted: [] });
  });

  test("a link to the workspace makes no difference", () => {
    const link = join(base, "link");
    symlinkSync(root, link);
    expect(writeRules([".vscode"], link).lifted).toEqual([join(link, ".vscode")]);
    const [found] = protectedRoots([link], [join(link, ".vscode")]);
    expect(found?.root).toBe(root);
    expect(found?.paths).not.toContain(".vscode");
    expect(found?.paths).toContain(".idea");
  });

  test("lifts that name, and nothing beside it", () => {
    repository();
    const paths = (lifted: string) => protectedRoots([root], [join(root, lifted)])[0]?.paths ?? [];
    expect(paths(".git")).not.toContain(".git");
    expect(paths(".git")).toContain(".vscode");
  });
});

describe("in a folder", () => {
  const paths = () => protectedRoots([root], [])[0]?.paths ?? [];

  test("without a repository none can be planted, a bare one included", () => {
    expect(paths()).toEqual(expect.arrayContaining([".git", "HEAD"]));
    mkdirSync(join(root, ".git"));
    expect(paths()).toEqual(expect.arrayContaining([".git", "HEAD"]));
    rmdirSync(join(root, ".git"));
    writeFileSync(join(root, ".git"), "gitdir: ../elsewhere\n");
    expect(paths()).toEqual(expect.arrayContaining([".git", "HEAD"]));
  });

  test("with a repository all of it is protected", () => {
    repository();
    expect(paths()).toContain(".git");
    expect(paths()).not.toContain("HEAD");
  });

  test("an index that git could not read is an error that says so", () => {
    repository();
    writeFileSync(join(root, ".git/index"), "DIRC and nothing else");
    expect(paths).toThrow(/Cannot read the git index of/);
  });
});
