import { mkdirSync, mkdtempSync, realpathSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { CodeReach } from "../../src/reach/code-reach.ts";
import { UnusablePath, wayTo } from "../../src/reach/way.ts";

function ground(...paths: string[]): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "cellwright-reach-")));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const path of paths) mkdirSync(join(folder, path), { recursive: true });
  return folder;
}

test("a way follows links as the operating system does, `..` after a link included", () => {
  const at = ground("a/b/c", "x");
  symlinkSync("../a/b", join(at, "x/link"));
  const { real, exists, steps } = wayTo(`${at}/x/link/../b/c`);
  expect([real, exists]).toEqual([join(at, "a/b/c"), true]);
  expect(steps.filter(({ isLink }) => isLink).map(({ path }) => path)).toEqual([join(at, "x/link")]);
  expect(wayTo(join(at, "a/none/of/these"))).toMatchObject({ real: join(at, "a/none/of/these"), exists: false });
});

test("a way that never ends, or leads into files that the kernel makes up, is none", () => {
  const at = ground();
  symlinkSync("loop", join(at, "loop"));
  symlinkSync("/proc/self", join(at, "self"));
  for (const path of [join(at, "loop"), join(at, "self/cwd"), "/proc/self", "/sys", "/dev/shm/x"]) {
    expect(() => wayTo(path), path).toThrow(UnusablePath);
  }
});

test("what code can change is decided by the identity of folders: other names and links make no difference", () => {
  const at = ground("work/project/.venv/bin", "outside/bin");
  const reach = new CodeReach({ writable: [join(at, "work")], kept: [join(at, "work/project/.venv")] });
  expect(reach.through(join(at, "outside/bin"))).toBeUndefined();
  expect(reach.through(join(at, "work/project"))).toBe(join(at, "work"));
  expect(reach.through(join(at, "work/project/.venv/bin"))).toBeUndefined();
  expect(reach.through(join(at, "work/not/yet"))).toBe(join(at, "work"));
  symlinkSync(join(at, "work"), join(at, "alias"));
  expect(reach.through(join(at, "alias/project"))).toBe(join(at, "work"));
  // A link that code can replace, although its current target is safe.
  symlinkSync(join(at, "outside"), join(at, "work/link"));
  expect(reach.through(join(at, "work/link/bin"))).toBe(join(at, "work"));
  symlinkSync(join(at, "work/project/.venv"), join(at, "work/venv"));
  expect(reach.through(join(at, "work/venv/bin"))).toBe(join(at, "work"));
});

test("what the system refuses to look at is judged by the folder above it", () => {
  const at = ground("work");
  const reach = new CodeReach({ writable: [join(at, "work")], kept: [] });
  expect(reach.through(join(at, "work", "x".repeat(300)))).toBe(join(at, "work"));
});

test("another folder in the place of a kept one is not kept", () => {
  const at = ground("work/.venv");
  const reach = new CodeReach({ writable: [join(at, "work")], kept: [join(at, "work/.venv")] });
  renameSync(join(at, "work/.venv"), join(at, "work/old"));
  mkdirSync(join(at, "work/.venv"));
  expect(reach.through(join(at, "work/.venv"))).toBe(join(at, "work"));
  expect(reach.through(join(at, "work/old"))).toBeUndefined();
});
