// How long a client waits for the reply to `interrupt`, for each kind of code that can be interrupted. A kernel that
// takes longer than two seconds would be killed.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { connectTo } from "./client.mjs";
import { Report } from "./measure.mjs";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const python = process.env.CELLWRIGHT_TEST_PYTHON ?? here("../.cache/test-env/bin/python");
const kernels = { wasm: ["--kernel", "wasm"], local: ["--kernel", "local", "--env", dirname(dirname(python))] };
/** Grace period of a session before its kernel is killed. */
const GRACE_MS = 2_000;
const ROUNDS = 20;

const cells = {
  "a loop": "while True: pass",
  "a sleep": "import time\ntime.sleep(1000)",
  "an await": "import asyncio\nawait asyncio.sleep(1000)",
  "a repr": "class Endless:\n    def __repr__(self):\n        while True: pass\nEndless()",
};

const report = new Report();
for (const [kernel, options] of Object.entries(kernels)) {
  const dataDir = mkdtempSync(join(tmpdir(), "cellwright-bench-"));
  const program = [here("../dist/main.js"), "--data-dir", dataDir, ...options];
  // The very first start prepares more than a session.
  execFileSync(process.execPath, [...program, "run", "-c", "1"]);
  const { client, run } = await connectTo(program);
  const call = (name, args) => client.callTool({ name, arguments: args }, { timeout: 120_000 });
  try {
    const session_id = await run("kept = 1");
    for (const [what, code] of Object.entries(cells)) {
      const times = [];
      for (let round = 0; round < ROUNDS; round += 1) {
        await call("execute_code", { session_id, code, wait_s: 0 });
        const began = performance.now();
        await call("interrupt", { session_id });
        times.push(performance.now() - began);
        await run("assert kept == 1", session_id);
      }
      times.sort((a, b) => a - b);
      report.say(`${kernel}: interrupt of ${what}, ms (median)`, times[ROUNDS / 2].toFixed(0));
      report.ratio(`${kernel}: slowest interrupt of ${what}, part of the grace`, times.at(-1) / GRACE_MS, {
        atMost: 1,
      });
    }
  } finally {
    await client.close();
    rmSync(dataDir, { recursive: true, force: true });
  }
}
process.exit(process.argv.includes("--check") && report.failed ? 1 : 0);
