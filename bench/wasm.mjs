// Cost of WASM sessions, as ratios of one run; `--check` fails if a limit is missed.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { createWasmProvider } from "../dist/kernels/wasm/provider.js";
import { findSources } from "../dist/kernels/wasm/sources.js";
import { createLog } from "../dist/log.js";
import { folder, here, measure, program, report } from "./bench.mjs";
import { connectTo } from "./client.mjs";
import { median, mediansInTurn, memoryMb, middle } from "./measure.mjs";

const run = promisify(execFile);

const prepare = () => run(process.execPath, [program, "run", "-c", "1", "--data-dir", folder]);
await measure(prepare, measureStart, measureWarmCell, measureFlood);

/** A new session to its first result. */
async function measureStart() {
  const { denoFile, pyodideDir } = findSources();
  const denoArgs = ["run", "--no-prompt", "--no-config", "--no-remote", "--no-npm", `--allow-read=${pyodideDir}`];
  const none = await median(3, () => run(denoFile, [...denoArgs, here("no-snapshot.mjs"), pyodideDir]));

  const cold = await connect(["--warm", "0"]);
  await cold.run("1 + 1");
  const initialize = await median(5, async () => (await connect(["--warm", "0"])).client.close());
  const snapshot = await median(7, () => cold.run("1 + 1"));
  const kernels = cold.children().filter((pid) => memoryMb([pid]) > 50);
  report.say("resident memory of an idle session, MB", (memoryMb(kernels) / kernels.length).toFixed(0));
  await cold.client.close();

  const warm = await connect(["--warm", "1"]);
  await warm.run("1 + 1");
  const pooled = [];
  for (let i = 0; i < 7; i += 1) {
    // The next kernel is ready when it uses no more CPU.
    await untilIdle(warm);
    pooled.push(await median(1, () => warm.run("1 + 1")));
  }
  await warm.client.close();
  const pool = middle(pooled);

  report.say("program start to the answer to initialize, ms", initialize.toFixed(0));
  report.say(
    "new session to first result, ms: none / snapshot / warm",
    [none, snapshot, pool].map((ms) => ms.toFixed(0)).join(" / "),
  );
  report.ratio("snapshot, times faster than none", none / snapshot, { atLeast: 5 });
  report.ratio("warm, times faster than snapshot", snapshot / pool, { atLeast: 3 });
}

/** A warm cell, compared with its two unavoidable parts: the kernel's round trip and an empty MCP call. */
async function measureWarmCell() {
  const provider = createWasmProvider({
    cacheDir: join(folder, "cache"),
    memoryMb: 1024,
    diskMb: 1024,
    jail: "auto",
    startTimeoutMs: 60_000,
    log: createLog("warn"),
  });
  const folders = { workspaceDir: join(folder, "bench-workspace"), runDir: join(folder, "bench-run") };
  const kernel = await provider.start(
    { language: "python" },
    { sessionId: "bench", ...folders, signal: new AbortController().signal },
  );
  const noop = await connectTo([here("noop-server.mjs")]);
  const cellwright = await connect(["--warm", "0"]);
  const session_id = await cellwright.run("1 + 1");
  const raw = async () => {
    for await (const event of kernel.execute("1 + 1")) if (event.type === "done") break;
  };
  const empty = () => noop.client.callTool({ name: "noop", arguments: {} });
  const whole = () => cellwright.run("1 + 1", session_id);
  for (const warmUp of [raw, empty, whole]) await median(100, warmUp);
  // Interleaved, so that each finds its process as idle as a real call would.
  const [rawMs, emptyMs, wholeMs] = await mediansInTurn(600, [raw, empty, whole]);
  report.say(
    "1 + 1, ms: kernel alone / empty MCP call / through stdio",
    [rawMs, emptyMs, wholeMs].map((ms) => ms.toFixed(2)).join(" / "),
  );
  report.ratio("1 + 1 through stdio, times (kernel alone + empty call)", wholeMs / (rawMs + emptyMs), { atMost: 1.5 });
  await Promise.all([cellwright.client.close(), noop.client.close(), provider.dispose()]);
}

/** Server memory after 100 MB of output. */
async function measureFlood() {
  const { run: execute, pid, client } = await connect(["--warm", "0"]);
  const session_id = await execute("1 + 1");
  for (let i = 0; i < 50; i += 1) await execute("1 + 1", session_id);
  const before = memoryMb([pid]);
  let peak = before;
  const watch = setInterval(() => {
    peak = Math.max(peak, memoryMb([pid]));
  }, 50);
  const tookMs = await median(1, () => execute("line = 'x' * 99\nfor i in range(1_000_000): print(line)", session_id));
  clearInterval(watch);
  await client.close();
  report.say("100 MB printed in a million lines, s", (tookMs / 1000).toFixed(1));
  report.ratio("server memory at its peak in that flood, MB more", peak - before, { atMost: 64 });
}

function connect(args) {
  return connectTo([program, "--data-dir", folder, ...args]);
}

async function untilIdle({ children }) {
  let before = -1;
  for (let now = cpuTicks(children()); now !== before; now = cpuTicks(children())) {
    before = now;
    await new Promise((resolve) => setTimeout(resolve, 400));
  }
}

function cpuTicks(pids) {
  return pids.reduce((sum, pid) => {
    const [, , user, system] = /\) \S( \S+){10} (\d+) (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, "utf8")) ?? [];
    return sum + Number(user) + Number(system);
  }, 0);
}
