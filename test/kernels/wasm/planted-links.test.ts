import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { findLink, removeLinks } from "../../../src/kernels/wasm/planted-links.ts";

let folder: string;
let outside: string;

beforeEach(() => {
  const root = mkdtempSync(join(tmpdir(), "cellwright-links-"));
  folder = join(root, "workspace");
  outside = join(root, "outside");
  mkdirSync(join(folder, "deep/er"), { recursive: true });
  mkdirSync(outside);
  writeFileSync(join(outside, "file"), "theirs");
  symlinkSync("file", join(outside, "their-link"));
  writeFileSync(join(folder, "deep/er/file"), "mine");
});
afterEach(() => rmSync(join(folder, ".."), { recursive: true, force: true }));

test("links go, at every depth and wherever they lead; files, folders and what is linked stay", async () => {
  symlinkSync(outside, join(folder, "folder"));
  symlinkSync(join(outside, "file"), join(folder, "deep/er/link"));
  symlinkSync("er", join(folder, "deep/inside"));
  symlinkSync("nowhere", join(folder, "dangling"));
  expect(await removeLinks(folder)).toBe(4);
  expect(readdirSync(folder, { recursive: true }).sort()).toEqual(["deep", "deep/er", "deep/er/file"]);
  expect(readdirSync(outside).sort()).toEqual(["file", "their-link"]);
});

test("a link in place of the folder itself is not followed", async () => {
  rmSync(folder, { recursive: true });
  symlinkSync(outside, folder);
  expect(await removeLinks(folder)).toBe(0);
  expect(lstatSync(join(outside, "their-link")).isSymbolicLink()).toBe(true);
});

test("a folder that is gone, or a file by now, has none", async () => {
  rmSync(folder, { recursive: true });
  expect(await removeLinks(folder)).toBe(0);
  writeFileSync(folder, "");
  expect(await removeLinks(folder)).toBe(0);
  expect(existsSync(folder)).toBe(true);
});

test("in a folder that is not to be cleaned up, a link is found at any depth and left there", async () => {
  expect(await findLink(folder)).toBeUndefined();
  symlinkSync(outside, join(folder, "deep/er/link"));
  expect(await findLink(folder)).toMatch(/\/workspace\/deep\/er\/link$/);
  expect(lstatSync(join(folder, "deep/er/link")).isSymbolicLink()).toBe(true);
});
