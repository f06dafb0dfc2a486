/** Cells that fail or time out, across the replaced systems, with the native tools. */

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { descendants, startStdio, until } from "../support/program.ts";
import { describeWith } from "../support/requirements.ts";
import { newSession, onLocal, onWasm, sharedProgram } from "./x-support.ts";

const IGNORES_INTERRUPTS = "while True:\n    try: time.sleep(600)\n    except BaseException: pass";

for (const [kernel, args, suite] of [
  ["WASM", onWasm, describe],
  ["local", onLocal, (title: string, body: () => void) => describeWith("localKernels", title, body)],
] as const) {
  suite(`failures on ${kernel} kernels`, () => {
    const program = sharedProgram([...args]);

    test("X-12 code that ignores interrupts is killed after the grace period, and that state was lost is said", async () => {
      const client = program();
      const session_id = await newSession(client, "import time\nx = 1");
      const stopped = await client.run(IGNORES_INTERRUPTS, { session_id, timeout_s: 1 });
      expect(stopped.execution.status).toBe("timeout");
      expect(stopped.text).toContain("state was lost");
      expect((await client.run("'x' in dir()", { session_id })).structured).toMatchObject({ result: "False" });
    });

    test("X-13 what a cell prints when it is interrupted is in its own result, and not in the next", async () => {
      const client = program();
      const session_id = await newSession(client);
      const code = "print('before', flush=True)\ntry: time.sleep(600)\nfinally: print('after')";
      const stopped = await client.run(code, { session_id, timeout_s: 1 });
      expect(stopped.structured).toMatchObject({ status: "timeout", stdout: "before\nafter\n" });
      const next = await client.run("print('own')", { session_id });
      expect(next.structured).toMatchObject({ status: "ok", stdout: "own\n", stderr: "" });
      expect(next.text).not.toMatch(/before|after/);
    });

    test("X-14 a kernel that ends itself, or is killed, is reported at once, and the next cell has a fresh one", async () => {
      const client = program();
      const session_id = await newSession(client);
      const died = await client.run("print('last words', flush=True)\nos._exit(1)", { session_id });
      expect(died.structured).toMatchObject({ status: "kernel_died", stdout: "last words\n" });
      expect(died.text).toContain("kernel died");
      expect(died.text).toContain("state was lost");
      expect((await client.run("6 * 7", { session_id })).structured).toMatchObject({ status: "ok", result: "42" });
    });

    test("X-16 a limit of an hour is accepted", async () => {
      const reply = await program().run("'within the hour'", { timeout_s: 3600 });
      expect(reply.structured).toMatchObject({ status: "ok", result: "'within the hour'" });
    });
  });
}

describe("a kernel that is killed from outside", () => {
  test("X-14 its cell ends at once, with what it had printed", async () => {
    const client = await startStdio({ args: onWasm });
    const session_id = await newSession(client);
    const cell = client.run("print('in it', flush=True)\ntime.sleep(600)", { session_id });
    await until("the cell to print", async () => {
      return (await client.call("wait", { session_id, wait_s: 0 })).text.includes("in it");
    });
    const interpreters = descendants(client.pid).filter((pid) => /deno/.test(commandOf(pid)));
    expect(interpreters.length).toBeGreaterThan(0);
    const innermost = Math.max(...interpreters);
    process.kill(innermost, "SIGKILL");
    const died = await cell;
    expect(died.structured).toMatchObject({ status: "kernel_died" });
    expect(died.text).toMatch(/kernel died[\s\S]*state was lost/);
    expect((await client.run("6 * 7", { session_id })).structured).toMatchObject({ status: "ok", result: "42" });
  });
});

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}
