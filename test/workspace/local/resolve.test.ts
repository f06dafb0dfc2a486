import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openLocalWorkspace } from "../../../src/workspace/local/workspace.ts";

test("a path without the links in it, and without what leads out", async () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "cw-resolve-")));
  onTestFinished(() => rmSync(root, { recursive: true }));
  mkdirSync(join(root, "a/b"), { recursive: true });
  writeFileSync(join(root, "a/b/file.txt"), "x");
  symlinkSync("a/b", join(root, "folder"));
  symlinkSync("../file.txt", join(root, "a/up"));
  symlinkSync("../../..", join(root, "a/out"));
  const workspace = openLocalWorkspace(root);
  const resolve = (path: string) => workspace.resolve?.(path);
  expect(await resolve("a/b/file.txt")).toBe("a/b/file.txt");
  expect(await resolve("folder/file.txt")).toBe("a/b/file.txt");
  expect(await resolve("folder/new.txt")).toBe("a/b/new.txt");
  expect(await resolve("a/up")).toBe("file.txt");
  expect(await resolve("")).toBe("");
  await expect(resolve("a/out/x")).rejects.toMatchObject({ code: "path_outside_session" });
  await expect(resolve("missing/x")).rejects.toMatchObject({ code: "file_not_found" });
});
