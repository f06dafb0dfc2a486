/** Concurrency, across the replaced systems, with the native tools. */

import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Reply, startHttp, startStdio, type TestClient, until } from "../support/program.ts";
import { testPython } from "../support/pythons.ts";
import { describeWith } from "../support/requirements.ts";
import { newSession, onLocal, onWasm, sharedProgram, stateOf } from "./x-support.ts";

describe("concurrency", () => {
  const program = sharedProgram(onWasm);

  test("X-06 a running cell is listed and interrupted, on the connection that waits for it", async () => {
    const overStdio = program();
    const overHttp = await (await startHttp({ args: onWasm })).client();
    for (const client of [overStdio, overHttp]) {
      const session_id = await newSession(client);
      const cell = client.run("time.sleep(600)", { session_id });
      await running(client, session_id);
      expect(await stateOf(client, session_id)).toBe("busy");
      expect((await client.call("interrupt", { session_id })).execution.status).toBe("interrupted");
      expect((await cell).execution.status).toBe("interrupted");
    }
  });

  test("X-07 cells of two sessions run at the same time", async () => {
    const client = program();
    const sessions = [await newSession(client), await newSession(client)];
    const code = "import os\nwhile not os.path.exists('go'): time.sleep(0.02)\n'went on'";
    const cells = sessions.map((session_id) => client.run(code, { session_id }));
    for (const session_id of sessions) await running(client, session_id);
    // Neither can have ended before the other began.
    for (const session_id of sessions) await client.call("write_file", { session_id, path: "go", content: "" });
    for (const cell of cells) expect((await cell).structured?.result).toBe("'went on'");
  });

  test("X-08 ten cells at once in one session run in order and do not mix", async () => {
    const client = program();
    const session_id = await newSession(client, "order = []");
    const cells = Array.from({ length: 10 }, (_, number) => {
      const code = `order.append(${number})\nfor i in range(20): print('cell ${number}', i, flush=True)\norder`;
      return client.run(code, { session_id });
    });
    for (const [number, { structured }] of (await Promise.all(cells)).entries()) {
      expect(structured?.stdout).toBe(Array.from({ length: 20 }, (_, i) => `cell ${number} ${i}\n`).join(""));
      expect(structured?.result).toBe(`[${Array.from({ length: number + 1 }, (_, i) => i).join(", ")}]`);
    }
  });

  test("X-10 a call that its client cancels ends its cell, and the session goes on", async () => {
    const client = program();
    const session_id = await newSession(client, "kept = 'here'");
    const cancel = new AbortController();
    const cell = client.call("execute_code", { session_id, code: "while True: pass" }, { signal: cancel.signal });
    cell.catch(() => {});
    await running(client, session_id);
    cancel.abort();
    await expect(cell).rejects.toThrow();
    expect((await client.run("kept", { session_id })).structured).toMatchObject({ status: "ok", result: "'here'" });
  });
});

describeWith("localKernels", "a slow start", () => {
  test("X-09 a slow kernel start does not delay others", async ({ onTestFinished }) => {
    const home = mkdtempSync(join(tmpdir(), "cellwright-home-"));
    onTestFinished(() => rmSync(home, { recursive: true, force: true }));
    const python = join(home, "envs/slow/bin/python");
    mkdirSync(dirname(python), { recursive: true });
    // It starts when the test allows it: after more than five seconds, if the others took that long.
    const lines = ["#!/bin/sh", `touch '${home}/asked'`, `while ! [ -e '${home}/go' ]; do sleep 0.1; done`];
    writeFileSync(python, [...lines, `exec '${testPython("managed")}' "$@"`, ""].join("\n"));
    chmodSync(python, 0o755);
    // In a jail it could not report that it was started.
    const client = await startStdio({ args: [...onLocal, "--jail", "none"], env: { HOME: home } });
    const session_id = await newSession(client, "x = 0");
    let isSlowOver = false;
    const slow: Promise<Reply> = client.run("'slow but there'", { env: "slow" }).finally(() => {
      isSlowOver = true;
    });
    await until("the slow one to be started", () => existsSync(join(home, "asked")));
    for (let cell = 1; cell <= 5; cell++) {
      expect((await client.run("x += 1\nx", { session_id })).structured?.result).toBe(String(cell));
    }
    expect((await client.run("'another'")).structured?.result).toBe("'another'");
    expect(isSlowOver).toBe(false);
    writeFileSync(join(home, "go"), "");
    expect((await slow).structured?.result).toBe("'slow but there'");
  });
});

async function running(client: TestClient, session_id: string): Promise<void> {
  await until("the cell to run", async () => {
    return (await client.call("wait", { session_id, wait_s: 0 })).execution.status === "running";
  });
}
