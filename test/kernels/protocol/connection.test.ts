import { mkdtempSync, rmSync } from "node:fs";
import { mkdir, readFile, realpath, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { createConnection, removeConnection } from "../../../src/kernels/protocol/connection.ts";

const folder = mkdtempSync(join(tmpdir(), "cw-connection-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("only we can read a connection file, and no two have the same key", async () => {
  const one = await createConnection(join(folder, "one"));
  const two = await createConnection(join(folder, "two"));
  expect((await stat(one.insideFile)).mode & 0o777).toBe(0o600);
  expect((await stat(one.socketsDir)).mode & 0o777).toBe(0o700);
  expect(one.key).not.toBe(two.key);
  expect(JSON.parse(await readFile(one.insideFile, "utf8"))).toMatchObject({ key: one.key, ip: one.prefix });
});

test("a jailed kernel gets the paths of its sockets as it sees them", async () => {
  const connection = await createConnection(join(folder, "jailed"), { insideDir: "/run/cellwright" });
  expect(connection.insideFile).toBe("/run/cellwright/connection.json");
  const file = join(connection.socketsDir, "connection.json");
  expect(JSON.parse(await readFile(file, "utf8"))).toMatchObject({ ip: "/run/cellwright/s" });
  expect(connection.prefix).toBe(join(connection.socketsDir, "s"));
});

test("a long path gets a short name in a folder of our own, which is removed with the rest", async () => {
  const runDir = join(folder, "x".repeat(100), "run");
  const connection = await createConnection(runDir);
  expect(Buffer.byteLength(`${connection.prefix}-1`)).toBeLessThan(104);
  expect(await realpath(connection.link ?? "")).toBe(await realpath(connection.socketsDir));
  expect((await stat(dirname(connection.link ?? ""))).mode & 0o777).toBe(0o700);
  await removeConnection(connection);
  await expect(stat(connection.link ?? "")).rejects.toThrow("ENOENT");
  await expect(stat(connection.socketsDir)).rejects.toThrow("ENOENT");
});

test("what an earlier kernel left behind is gone", async () => {
  const runDir = join(folder, "again");
  await mkdir(join(runDir, "sockets", "ipython"), { recursive: true });
  const { socketsDir } = await createConnection(runDir);
  await expect(stat(join(socketsDir, "ipython"))).rejects.toThrow("ENOENT");
});
