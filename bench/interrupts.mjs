// How long a client waits for the reply to `interrupt`, for each kind of code that can be interrupted. A kernel that
// takes longer than two seconds would be killed.
import { execFileSync } from "node:child_process";
import { dirname, join } from "node:path";
import { folder, measure, program, python, report } from "./bench.mjs";
import { connectTo } from "./client.mjs";
import { middle } from "./measure.mjs";

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

await measure(
  ...Object.entries(kernels).map(
    ([kernel, options]) =>
      () =>
        measureKernel(kernel, options),
  ),
);

async function measureKernel(kernel, options) {
  const args = [program, "--data-dir", join(folder, kernel), ...options];
  // The very first start prepares more than a session.
  execFileSync(process.execPath, [...args, "run", "-c", "1"]);
  const { client, run } = await connectTo(args);
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
      report.say(`${kernel}: interrupt of ${what}, ms (median)`, middle(times).toFixed(0));
      const slowest = Math.max(...times) / GRACE_MS;
      report.ratio(`${kernel}: slowest interrupt of ${what}, part of the grace`, slowest, { atMost: 1 });
    }
  } finally {
    await client.close();
  }
}
