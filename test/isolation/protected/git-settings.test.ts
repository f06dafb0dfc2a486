import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { pathsInGitConfig } from "../../../src/isolation/protected/git-settings.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "cellwright-settings-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let count = 0;

function git(at: string, ...args: string[]): void {
  const env = { PATH: process.env.PATH, HOME: folder, GIT_CONFIG_NOSYSTEM: "1" };
  execFileSync("git", ["-C", at, ...args], { env, stdio: "pipe" });
}

function repository(): string {
  count += 1;
  const root = join(folder, String(count));
  mkdirSync(root);
  git(root, "init", "--quiet");
  return root;
}

/** Relative to the folder. Without the user's own settings on this machine. */
function places(root: string, env: NodeJS.ProcessEnv = { XDG_CONFIG_HOME: join(folder, "none") }) {
  const { folders, files } = pathsInGitConfig(root, env);
  const names = (paths: string[]) => paths.map((path) => path.slice(root.length + 1)).sort();
  return { folders: names(folders), files: names(files) };
}

function write(root: string, path: string, text = ""): void {
  mkdirSync(join(root, path, ".."), { recursive: true });
  writeFileSync(join(root, path), text);
}

describe("what git's settings lead to", () => {
  test("is the folder of hooks, whether it exists or not", () => {
    const root = repository();
    git(root, "config", "core.hooksPath", ".githooks");
    expect(places(root).folders).toEqual([".githooks"]);
    git(root, "config", "core.hooksPath", join(root, "deep/hooks"));
    expect(places(root).folders).toEqual(["deep/hooks"]);
    git(root, "config", "core.hooksPath", "/usr/share/hooks");
    expect(places(root).folders).toEqual([]);
    git(root, "config", "core.hooksPath", "ho\u2028oks");
    expect(places(root).folders).toEqual(["ho\u2028oks"]);
  });

  test("is what they include, with or without a condition, and what that names", () => {
    const root = repository();
    git(root, "config", "include.path", "../.gitconfig.shared");
    git(root, "config", "includeIf.onbranch:main.path", "../on-main");
    write(root, ".gitconfig.shared", '[core] hooksPath = "shared hooks" ; why not\n[include]\n\tpath = more\n');
    expect(places(root)).toEqual({
      folders: ["shared hooks"],
      files: [".gitconfig.shared", "more", "on-main"],
    });
  });

  test("is the programs they name, if they exist, and nothing that is only called so", () => {
    const root = repository();
    for (const path of ["tools/clean.py", "tools/monitor", "origin/main", "main"]) write(root, path);
    git(root, "config", "filter.x.clean", "python3 ./tools/clean.py --file=%f");
    git(root, "config", "core.fsmonitor", '"$(pwd)"/../gone; tools/monitor');
    git(root, "config", "alias.go", "!tools/nowhere");
    git(root, "config", "remote.origin.url", "./origin/main");
    git(root, "config", "branch.main.merge", "origin/main");
    git(root, "config", "init.defaultBranch", "main");
    expect(places(root)).toEqual({ folders: [], files: ["tools/clean.py", "tools/monitor"] });
  });

  test("counts for submodules, added worktrees, folders within a repository, and the user's own settings", () => {
    const [inner, root] = [repository(), repository()];
    const named = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "protocol.file.allow=always"];
    git(inner, ...named, "commit", "--quiet", "--allow-empty", "-m", "first");
    git(root, ...named, "submodule", "--quiet", "add", inner, "libs/inner");
    git(root, ...named, "commit", "--quiet", "-m", "with a submodule");
    git(join(root, "libs/inner"), "config", "core.hooksPath", ".hooks");
    expect(places(root).folders).toEqual(["libs/inner/.hooks"]);

    git(root, "config", "core.hooksPath", "sub/hooks");
    git(root, "worktree", "add", "--quiet", join(folder, "added"));
    expect(places(join(folder, "added")).folders).toEqual(["sub/hooks"]);
    mkdirSync(join(root, "sub"));
    expect(places(join(root, "sub")).folders).toEqual(["hooks"]);

    const plain = repository();
    write(folder, "user/git/config", "[core]\n\thooksPath = .mine\n");
    expect(places(plain, { XDG_CONFIG_HOME: join(folder, "user") }).folders).toEqual([".mine"]);
    expect(places(plain)).toEqual({ folders: [], files: [] });
  });
});
