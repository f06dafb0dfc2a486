import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
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
