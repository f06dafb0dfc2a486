import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { removeFolder } from "../../src/process/remove-folder.ts";

const base = mkdtempSync(join(tmpdir(), "cellwright-remove-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));

test("a folder is removed though a cell has closed it, and all in it", async () => {
  const folder = join(base, "closed");
  mkdirSync(join(folder, "in/deeper"), { recursive: true });
  writeFileSync(join(folder, "in/deeper/file"), "x");
  for (const path of ["in/deeper", "in", "."]) chmodSync(join(folder, path), 0);
  await removeFolder(folder);
  expect(existsSync(folder)).toBe(false);
});

test("nothing is removed through a link, and a missing folder is ignored", async () => {
  const kept = join(base, "kept");
  mkdirSync(kept);
  writeFileSync(join(kept, "file"), "x");
  symlinkSync(kept, join(base, "link"));
  await removeFolder(join(base, "link"));
  await removeFolder(join(base, "missing"));
  expect(existsSync(join(base, "link"))).toBe(false);
  expect(existsSync(join(kept, "file"))).toBe(true);
});

test("two may remove the same folder at the same time", async () => {
  const folder = join(base, "twice");
  for (let deep = folder, level = 0; level < 300; level += 1, deep = join(deep, "d")) {
    mkdirSync(deep, { recursive: true });
    writeFileSync(join(deep, "file"), "x");
  }
  await Promise.all([removeFolder(folder), removeFolder(folder)]);
  expect(existsSync(folder)).toBe(false);
});
