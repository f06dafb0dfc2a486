import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { OpenFolder } from "../../../src/folders/folder.ts";
import { holdFolder } from "../../../src/folders/held-folder.ts";
import { verifyFolder } from "../../../src/folders/verified-folder.ts";
import { protectedRoots } from "../../../src/isolation/protected/protected-roots.ts";
import { openLocalWorkspace } from "../../../src/workspace/local/workspace.ts";
import type { Workspace } from "../../../src/workspace/workspace.ts";

const ways: Record<string, OpenFolder> = {
  ...(existsSync("/proc/self/fd") && { "held folders": holdFolder }),
  "verified folders": verifyFolder,
};

describe.each(Object.entries(ways))("what is protected in a workspace, with %s", (_, openFolder) => {
  let root: string;
  let workspace: Workspace;
  const put = (path: string, content = "theirs") => {
    mkdirSync(join(root, dirname(path)), { recursive: true });
    writeFileSync(join(root, path), content);
  };
  const open = ({ environments = [] as string[], lifted = [] as string[] } = {}) =>
    openLocalWorkspace(root, {
      openFolder,
      protect: () => ({ folders: environments, roots: protectedRoots([root], lifted) }),
    });
  const write = (path: string) => workspace.write(path, Buffer.from("ours")).then(String, ({ code }) => code);
  const remove = (path: string) => workspace.remove(path).then(String, ({ code }) => code);

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "cellwright-protected-"));
    onTestFinished(() => rmSync(root, { recursive: true, force: true }));
    workspace = open();
  });

  test("names that hosts obey are refused, whether they exist or not, and by any spelling", async () => {
    put(".vscode/tasks.json");
    const refused = [
      ".vscode/tasks.json",
      ".git/config",
      ".git",
      ".VSCODE/x",
      ".envrc",
      "./.npmrc",
      ".Git/hooks/x",
      "HEAD",
    ];
    for (const path of [...refused, ".g\u200cit/config"]) expect(await write(path), path).toBe("path_protected");
    expect(await remove(".vscode")).toBe("path_protected");
    expect(readFileSync(join(root, ".vscode/tasks.json"), "utf8")).toBe("theirs");
    expect(await workspace.read(".vscode/tasks.json", { maxBytes: 10 })).toBeDefined();
    expect(existsSync(join(root, ".git"))).toBe(false);
  });

  test("in a repository all of `.git` is refused, and so is moving it away, but not the rest", async () => {
    put(".git/HEAD", "ref: refs/heads/main");
    put(".git/config");
    for (const path of [".git/config", ".git/hooks/pre-commit", ".git/commondir", ".git/info/attributes"]) {
      expect(await write(path), path).toBe("path_protected");
    }
    expect(await remove(".git")).toBe("path_protected");
    expect(await remove(".git/config")).toBe("path_protected");
    expect(await write(".git/description")).toBe("path_protected");
    expect(await write("HEAD")).not.toBe("path_protected");
    expect(await write("sub/notes.md")).not.toBe("path_protected");
  });

  test("a link that leads there is no way around", async () => {
    put(".git/HEAD", "ref: refs/heads/main");
    put(".vscode/tasks.json");
    symlinkSync(".git", join(root, "g"));
    symlinkSync(".vscode", join(root, "v"));
    symlinkSync(".vscode/tasks.json", join(root, "t"));
    for (const path of ["g/config", "g/hooks/x", "v/tasks.json", "v/new", "t"]) {
      expect(await write(path), path).toBe("path_protected");
    }
    expect(await remove("v/tasks.json")).toBe("path_protected");
    // The link itself is not a protected file.
    expect(await remove("v")).not.toBe("path_protected");
  });

  test("an environment is known by what it is, not by its path", async () => {
    put("env/lib/site-packages/a.py");
    symlinkSync("env", join(root, "other"));
    workspace = open({ environments: [join(root, "env")] });
    for (const path of ["env/lib/site-packages/x.pth", "env/bin/python", "other/lib/site-packages/x.pth"]) {
      expect(await write(path), path).toBe("path_protected");
    }
    expect(await remove("env")).toBe("path_protected");
    expect(await remove("env/lib")).toBe("path_protected");
    // Named by a link, as an active environment may be.
    workspace = open({ environments: [join(root, "other")] });
    expect(await write("env/lib/site-packages/x.pth")).toBe("path_protected");
    expect(await remove("other")).toBe("path_protected");
  });

  test("a folder above an environment is neither removed nor replaced", async () => {
    put("tools/envs/one/pyvenv.cfg");
    workspace = open({ environments: [join(root, "tools/envs/one")] });
    for (const path of ["tools", "tools/envs", "tools/envs/one"])
      expect(await remove(path), path).toBe("path_protected");
    expect(await write("tools/envs/notes.txt")).not.toBe("path_protected");
  });

  test("an environment that was moved meanwhile is refused where it is now", async () => {
    put("env/pyvenv.cfg");
    renameSync(join(root, "env"), join(root, "moved"));
    symlinkSync("moved", join(root, "env"));
    workspace = open({ environments: [join(root, "env")] });
    expect(await write("moved/x.pth")).toBe("path_protected");
  });

  test("--allow-write lifts it for one name, and the refusal says so", async () => {
    const error = await workspace.write(".vscode/tasks.json", Buffer.from("")).catch((thrown) => thrown);
    expect(error.message).toContain("programs on this machine automatically run `.vscode`");
    expect(error.hint).toContain("--allow-write=.vscode");
    workspace = open({ lifted: [join(root, ".vscode")] });
    expect(await write(".vscode/tasks.json")).not.toBe("path_protected");
    expect(await write(".envrc")).toBe("path_protected");
  });

  test("our mount points are not listed", async () => {
    put("a.txt");
    put(".vscode/tasks.json");
    for (const name of [".idea", ".bashrc", "empty"]) mkdirSync(join(root, name));
    const { entries } = await workspace.list(".");
    expect(entries.map(({ path }) => path)).toEqual([".vscode", "a.txt", "empty"]);
  });
});
