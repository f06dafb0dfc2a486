import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ownToken } from "../src/own-token.ts";

function place(): string {
  const folder = mkdtempSync(join(tmpdir(), "cellwright-token-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "data", "auth-token");
}

test("a token is made once, for its owner's eyes only, and is the same ever after", async () => {
  const file = place();
  const token = await ownToken(file);
  expect(token).toMatch(/^[\w-]{43}$/);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readFileSync(file, "utf8").trim()).toBe(token);
  expect(await ownToken(file)).toBe(token);
  expect(await ownToken(place())).not.toBe(token);
});

test("programs that start at the same time agree, and leave nothing beside it", async () => {
  const file = place();
  const tokens = await Promise.all(Array.from({ length: 20 }, () => ownToken(file)));
  expect(new Set(tokens).size).toBe(1);
  expect(readdirSync(join(file, ".."))).toEqual(["auth-token"]);
});

test("a file that others can read, a link, and one without a token are refused in a sentence", async () => {
  const file = place();
  const token = await ownToken(file);
  chmodSync(file, 0o644);
  await expect(ownToken(file)).rejects.toThrow("remove it to generate a new token");
  rmSync(file);
  writeFileSync(`${file}-elsewhere`, token, { mode: 0o600 });
  symlinkSync(`${file}-elsewhere`, file);
  await expect(ownToken(file)).rejects.toThrow(/cannot read the token .*\(ELOOP\)/);
  rmSync(file);
  for (const content of ["", "short", "two tokens of some length", "x".repeat(10_000)]) {
    writeFileSync(file, content, { mode: 0o600 });
    await expect(ownToken(file)).rejects.toThrow("does not hold a token");
  }
});
