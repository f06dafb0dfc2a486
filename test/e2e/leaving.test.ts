import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, test } from "vitest";
import { descendants, isAlive, programPath, startHttp, temporaryDataDir, until } from "../support/program.ts";

/** The program driven line by line, to see exactly what is on its stdout. */
async function startRaw(dataDir = temporaryDataDir()) {
  const child = spawn(process.execPath, [programPath, "--data-dir", dataDir], { stdio: ["pipe", "pipe", "pipe"] });
  const lines: string[] = [];
  const replies = new Map<number, (message: Record<string, never>) => void>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    lines.push(line);
    const message = JSON.parse(line);
    replies.get(message.id)?.(message);
  });
  let id = 0;
  const request = (method: string, params: object) =>
    new Promise<{ result: { _meta: Record<string, { session_id: string }> } }>((resolve) => {
      id += 1;
      replies.set(id, resolve as never);
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    });
  await request("initialize", {
    protocolVersion: "2025-06-18",
    capabilities: {},
    clientInfo: { name: "raw", version: "1" },
  });
  child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
  return {
    child,
    dataDir,
    lines,
    call: (name: string, args: object) => request("tools/call", { name, arguments: args }),
  };
}

async function startLooping() {
  const program = await startRaw();
  const { result } = await program.call("execute_code", { code: "x = 1" });
  const session_id = result._meta["cellwright/execution"]?.session_id;
  void program.call("execute_code", {
    session_id,
    code: "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
  });
  await until("a kernel to burn", () => descendants(program.child.pid ?? 0).length > 0);
  return { ...program, kernels: descendants(program.child.pid ?? 0) };
}

describe("leaving", () => {
  test.each(["SIGTERM", "SIGINT", "end of input"])(
    "%s with a looping cell leaves no process and no temporary folder",
    async (how) => {
      const { child, kernels, dataDir } = await startLooping();
      const exited = once(child, "exit");
      if (how === "end of input") child.stdin.end();
      else child.kill(how as NodeJS.Signals);
      const [code] = await exited;
      expect(code).toBe(0);
      await until("the kernels to be gone", () => !kernels.some(isAlive));
      for (const id of readdirSync(join(dataDir, "sessions"))) {
        expect(readdirSync(join(dataDir, "sessions", id))).not.toContain("run");
      }
    },
  );

  test("a crash of the program leaves no kernel", async () => {
    const { child, kernels } = await startLooping();
    expect(kernels.length).toBeGreaterThan(0);
    child.kill("SIGKILL");
    await until("the kernels to be gone", () => !kernels.some(isAlive));
  });

  test("SIGTERM while the first kernel is being prepared ends that too, and leaves no half-made snapshot", async () => {
    const dataDir = temporaryDataDir();
    rmSync(join(dataDir, "cache"));
    const program = await startHttp({ dataDir, env: { CELLWRIGHT_WARM: "1" } });
    await until("the snapshot to be built", () => descendants(program.pid).length > 0);
    const builders = descendants(program.pid);
    await program.stop("SIGTERM");
    expect(program.process.exitCode).toBe(0);
    await until("the builder to be gone", () => !builders.some(isAlive));
    expect(readdirSync(join(dataDir, "cache", "wasm"))).toEqual([]);
    expect(readdirSync(join(dataDir, "sessions"))).toEqual([]);
  });

  test("SIGTERM ends a looping cell of the HTTP server too", async () => {
    const program = await startHttp();
    const client = await program.client();
    client.run("while True: pass").catch(() => {});
    await until("a kernel to burn", () => descendants(program.pid).length > 0);
    const kernels = descendants(program.pid);
    await program.stop("SIGTERM");
    expect(program.process.exitCode).toBe(0);
    await until("the kernels to be gone", () => !kernels.some(isAlive));
  });

  test("stdout carries the protocol and nothing else, whatever a cell writes", async () => {
    const { call, lines, child } = await startRaw();
    await call("execute_code", {
      code: "import os, sys\nos.write(1, b'raw\\n'); os.write(2, b'raw\\n'); print('x'); sys.__stdout__.write('y\\n')",
    });
    await call("execute_code", { code: "from js import console; console.log('from js')" });
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ jsonrpc: "2.0" });
    child.stdin.end();
    await once(child, "exit");
  });
});
