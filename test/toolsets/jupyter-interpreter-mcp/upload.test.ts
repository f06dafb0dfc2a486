import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { findHostFile } from "../../../src/toolsets/jupyter-interpreter-mcp/upload.ts";

test("over HTTP files of the machine are read only below --allowed-dir", async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "cellwright-upload-")));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const inside = join(folder, "data.txt");
  writeFileSync(inside, "x");
  const own = join(process.cwd(), "package.json");
  const find = (path: string, local: boolean, changed = {}) =>
    findHostFile(path, { own: { allowedDir: [], allowAll: false, ...changed }, local });

  expect(await find(own, true)).toBe(own);
  for (const path of [own, inside, "/etc/passwd", join(folder, "no-such-file")]) {
    await expect(find(path, false)).rejects.toThrow("--allowed-dir");
  }
  expect(await find(inside, false, { allowedDir: [folder] })).toBe(inside);
  await expect(find(own, false, { allowedDir: [folder] })).rejects.toThrow("outside allowed");
  expect(await find(inside, false, { allowAll: true })).toBe(inside);
});

test("`..` after a symlink is the folder above its target, as it is for the kernel", async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "cellwright-upload-")));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, "data", "sub"), { recursive: true });
  symlinkSync(join(folder, "data", "sub"), join(folder, "link"));
  writeFileSync(join(folder, "x.txt"), "not this one");
  writeFileSync(join(folder, "data", "x.txt"), "this one");
  const find = (path: string, allowed: string) =>
    findHostFile(path, { own: { allowedDir: [allowed], allowAll: false }, local: false });

  expect(await find(`${folder}/link/../x.txt`, folder)).toBe(join(folder, "data", "x.txt"));
  await expect(find(join(folder, "x.txt"), `${folder}/link/..`)).rejects.toThrow("outside allowed");
});
