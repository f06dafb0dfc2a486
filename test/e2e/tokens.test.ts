import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startPoolProgram } from "../support/pool-program.ts";
import { bearer, descendants, startHttp, startStdio, temporaryDataDir } from "../support/program.ts";

const onWasm = ["--kernel", "wasm"];
const cell = (headers: Record<string, string>) => ({
  method: "POST",
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify({ code: "6 * 7", timeout: 60 }),
});
const commandLine = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, "utf8");

test("a server wants a token that it made, and wants the same one after a restart", async () => {
  const dataDir = temporaryDataDir();
  const first = await startHttp({ args: [...onWasm, "--log-level", "debug"], dataDir });
  const { token = "" } = first;
  expect(token).toMatch(/^[\w-]{43}$/);
  expect(statSync(join(dataDir, "auth-token")).mode & 0o777).toBe(0o600);
  for (const path of ["/jupyter_sandbox", "/clear_session", "/mcp"]) {
    for (const headers of [{}, bearer("x".repeat(43))]) {
      expect((await fetch(new URL(path, first.url), cell(headers))).status).toBe(401);
    }
  }
  expect((await fetch(new URL("/healthz", first.url))).status).toBe(200);
  expect((await (await first.client()).run("6 * 7")).text).toContain("42");
  expect(first.stderr()).not.toContain(token);
  expect(commandLine(first.pid)).not.toContain(token);
  await first.stop();
  const second = await startHttp({ args: onWasm, dataDir });
  expect(second.token).toBe(token);
  expect((await (await second.client("v2 modern", token)).run("6 * 7")).text).toContain("42");
});

test("tokens can be set by a file or a variable, and then no other one is taken", async () => {
  const dataDir = temporaryDataDir();
  const file = join(dataDir, "tokens");
  writeFileSync(file, "# tenants\nann=a-token-of-some-length\n\nbob=another-token-of-some-length\n", { mode: 0o600 });
  const third = "a-third-token-of-some-length";
  const env = { CELLWRIGHT_AUTH_TOKEN: `${third},@${file}` };
  const server = await startHttp({ args: onWasm, env, dataDir });
  expect(server.token).toBeUndefined();
  const status = async (token: string) =>
    (await fetch(new URL("/jupyter_sandbox", server.url), cell(bearer(token)))).status;
  for (const token of ["a-token-of-some-length", "another-token-of-some-length", third]) {
    expect(await status(token)).toBe(200);
  }
  expect(await status("ann=a-token-of-some-length")).toBe(401);
});

test.each([
  ["short", "16 characters"],
  ["", "holds no token"],
  ["ann = spaced-out-of-some-length", "line 1"],
])("a file with `%s` is refused in a sentence that does not show it", async (content, sentence) => {
  const dataDir = temporaryDataDir();
  const file = join(dataDir, "tokens");
  writeFileSync(file, content);
  const starting = startHttp({ args: [...onWasm, "--auth-token", `@${file}`], dataDir });
  await expect(starting).rejects.toThrow(sentence);
  await expect(starting).rejects.not.toThrow("spaced-out");
});

test("--insecure wants none", async () => {
  const server = await startHttp({ args: [...onWasm, "--insecure"] });
  expect(server.token).toBeUndefined();
  expect((await fetch(new URL("/jupyter_sandbox", server.url), cell({}))).status).toBe(200);
});

test("a pool generates a token for its sandboxes, not visible in the process list, and the balancer finds it", async () => {
  const pool = await startPoolProgram({ count: 1, args: ["--kernel", "wasm"] });
  const { token = "" } = pool;
  expect(token).toMatch(/^[\w-]{43}$/);
  const [url = ""] = pool.urls;
  expect((await fetch(`${url}/jupyter_sandbox`, cell({}))).status).toBe(401);
  expect((await fetch(`${url}/jupyter_sandbox`, cell(bearer(token)))).status).toBe(200);
  for (const pid of [pool.pid, ...descendants(pool.pid)]) expect(commandLine(pid)).not.toContain(token);
  const front = await startStdio({ args: ["--kernel", "pool", "--pool-url", url], dataDir: pool.dataDir });
  expect((await front.run("6 * 7")).text).toContain("42");
});

test("a token that a pool was given as a flag is not handed on as one", async () => {
  const secret = "a-token-that-was-a-flag";
  const args = ["--kernel", "wasm", "--auth-token", secret];
  const pool = await startPoolProgram({ count: 1, args });
  expect(pool.token).toBeUndefined();
  for (const pid of descendants(pool.pid)) expect(commandLine(pid)).not.toContain(secret);
  const [url = ""] = pool.urls;
  expect((await fetch(`${url}/jupyter_sandbox`, cell(bearer(secret)))).status).toBe(200);
});
