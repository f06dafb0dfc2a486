import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { linkedRepositories } from "../../../src/isolation/protected/git-links.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "cellwright-links-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let count = 0;

const settings = ["user.name=x", "user.email=x@example.org", "protocol.file.allow=always", "init.defaultBranch=main"];

function git(at: string, ...args: string[]): string {
  const config = settings.flatMap((setting) => ["-c", setting]);
  const env = { PATH: process.env.PATH, HOME: folder, GIT_CONFIG_NOSYSTEM: "1" };
  return execFileSync("git", ["-C", at, ...config, ...args], { encoding: "utf8", env, stdio: "pipe" }).trim();
}

function repository(...initArgs: string[]): string {
  count += 1;
  const root = join(folder, String(count));
  mkdirSync(root);
  git(root, "init", "--quiet", ...initArgs);
  for (const name of ["a.txt", "b/c.txt", "z-last.txt"]) {
    mkdirSync(join(root, "b"), { recursive: true });
    writeFileSync(join(root, name), name);
  }
  git(root, "add", ".");
  git(root, "commit", "--quiet", "-m", "first");
  return root;
}

/** What git treats as a submodule, whatever `.gitmodules` says. */
function addLink(root: string, path: string): void {
  git(root, "update-index", "--add", "--cacheinfo", `160000,${git(root, "rev-parse", "HEAD")},${path}`);
}

describe("places where git looks for repositories by itself", () => {
  test("are found for submodules, checked out or not, and for those within them", () => {
    const [inner, outer, root] = [repository(), repository(), repository()];
    git(outer, "submodule", "--quiet", "add", inner, "deep/inner");
    git(outer, "commit", "--quiet", "-m", "with a submodule");
    git(root, "submodule", "--quiet", "add", outer, "libs/outer");
    git(root, "submodule", "--quiet", "add", inner, "gone/mod");
    git(root, "commit", "--quiet", "-m", "with submodules");
    expect(linkedRepositories(root).sort()).toEqual([
      "gone/mod/.git",
      "libs/outer/.git",
      // Not checked out: nothing may be created in it.
      "libs/outer/deep/inner",
    ]);
    git(root, "submodule", "--quiet", "deinit", "--force", "gone/mod");
    rmSync(join(root, "gone"), { recursive: true });
    git(root, "submodule", "--quiet", "update", "--init", "--recursive", "libs/outer");
    expect(linkedRepositories(root).sort()).toEqual(["gone/mod", "libs/outer/.git", "libs/outer/deep/inner/.git"]);
  });

  const names = ["emb", 'we ird/mo"d', "ünï", "b/linked"];
  test.each([
    ["of version 2", (root: string) => git(root, "update-index", "--index-version", "2")],
    ["of version 3", (root: string) => git(root, "update-index", "--skip-worktree", "a.txt")],
    ["of version 4", (root: string) => git(root, "update-index", "--index-version", "4")],
    ["that is split", (root: string) => git(root, "update-index", "--split-index")],
  ])("are found in an index %s, without any settings", (_, change) => {
    const root = repository();
    for (const name of names) addLink(root, name);
    change(root);
    expect(linkedRepositories(root).sort()).toEqual([...names].sort());
    expect(linkedRepositories(join(root, "b"))).toEqual(["linked"]);
  });

  test("are found with long hashes", () => {
    const root = repository("--object-format=sha256");
    addLink(root, "emb");
    expect(linkedRepositories(root)).toEqual(["emb"]);
  });

  test("are none where there is no repository, or none but its own files", () => {
    expect(linkedRepositories(folder)).toEqual([]);
    expect(linkedRepositories(repository())).toEqual([]);
  });
});
