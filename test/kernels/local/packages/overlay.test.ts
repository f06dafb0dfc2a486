import { existsSync, mkdirSync, mkdtempSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { moveIntoOverlay, openOverlay } from "../../../../src/kernels/local/packages/overlay.ts";

let folder: string;
let overlayDir: string;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "cellwright-overlay-"));
  overlayDir = await openOverlay(folder);
});

test("packages are moved into the session's folder; without any, nothing is", async () => {
  await moveIntoOverlay(join(folder, "site"), overlayDir);
  mkdirSync(join(folder, "site/alpha"), { recursive: true });
  writeFileSync(join(folder, "site/alpha/__init__.py"), "");
  await moveIntoOverlay(join(folder, "site"), overlayDir);
  expect(readdirSync(overlayDir, { recursive: true })).toEqual(["alpha", "alpha/__init__.py"]);
});

test("a link in place of the installer's folder is refused, and what it leads to stays where it is", async () => {
  const elsewhere = join(folder, "elsewhere");
  mkdirSync(elsewhere);
  writeFileSync(join(elsewhere, "precious.py"), "");
  symlinkSync(elsewhere, join(folder, "site"));
  await expect(moveIntoOverlay(join(folder, "site"), overlayDir)).rejects.toThrow("is not a folder");
  expect(existsSync(join(elsewhere, "precious.py"))).toBe(true);
  expect(readdirSync(overlayDir)).toEqual([]);
});
