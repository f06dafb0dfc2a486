// Cost of local sessions, as ratios of one run; `--check` fails if a limit is missed.
//
//   CELLWRIGHT_TEST_PYTHON   an interpreter with ipykernel, jupyter_client, numpy, pandas, matplotlib and plotly
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { createCellwright } from "../dist/index.js";
import { folder, here, measure, program, python, report } from "./bench.mjs";
import { connectTo } from "./client.mjs";
import { descendants, median, mediansInTurn, middle, shareOfMemoryMb } from "./measure.mjs";
import { startRawKernel } from "./raw-kernel.mjs";

const run = promisify(execFile);
const env = dirname(dirname(python));
const imports = "import numpy, pandas, matplotlib.pyplot\n1 + 1";

await measure(measureStart, measureWarmCell, measureParallel, measurePicture);

/** A new session with the usual imports to its first result: cold start by jupyter_client, forked on each tier, unjailed. */
async function measureStart() {
  const jailed = await engine({ jail: "auto" });
  const landlocked = await engine({ jail: "landlock" });
  const open = await engine({ jail: "none" });
  const engines = [jailed, landlocked, open];
  for (const { first } of engines) await first();
  const colds = [];
  const cold = async () => colds.push((await run(python, [here("cold-kernel.py")])).stdout.split(" ").map(Number));
  const [, jailedMs, landlockedMs, openMs] = await mediansInTurn(7, [cold, ...engines.map(({ first }) => first)]);
  const [coldMs, coldMb] = [0, 1].map((column) => middle(colds.map((row) => row[column])));
  const forkedMb = jailed.memoryMb();
  report.say(
    "new session with imports to first result, ms: cold / forked / with Landlock / no jail",
    [coldMs, jailedMs, landlockedMs, openMs].map((ms) => ms.toFixed(0)).join(" / "),
  );
  report.ratio("forked, times faster than cold", coldMs / jailedMs, { atLeast: 7 });
  report.ratio("jailed fork, times an unjailed one", jailedMs / openMs, { atMost: 1.3 });
  report.ratio("the same with Landlock alone", landlockedMs / openMs, { atMost: 1.3 });
  report.say("memory of a session (PSS), MB: cold / forked", `${coldMb.toFixed(0)} / ${forkedMb.toFixed(0)}`);
  report.ratio("memory of a forked session, part of a cold one's", forkedMb / coldMb, { atMost: 0.4 });
  await Promise.all(engines.map(({ dispose }) => dispose()));
}

/** A warm cell, compared with its two unavoidable parts: the kernel's round trip and an empty MCP call. */
async function measureWarmCell() {
  const raw = await startRawKernel(python);
  const noop = await connectTo([here("noop-server.mjs")]);
  const cellwright = await connect();
  const session_id = await cellwright.run("1 + 1");
  const works = [
    () => raw.run("1 + 1"),
    () => noop.client.callTool({ name: "noop", arguments: {} }),
    () => cellwright.run("1 + 1", session_id),
  ];
  for (const warmUp of works) await median(100, warmUp);
  const [rawMs, emptyMs, wholeMs] = await mediansInTurn(400, works);
  report.say(
    "1 + 1, ms: raw ZeroMQ / empty MCP call / through stdio",
    [rawMs, emptyMs, wholeMs].map((ms) => ms.toFixed(2)).join(" / "),
  );
  report.ratio("1 + 1 through stdio, times (raw + empty call)", wholeMs / (rawMs + emptyMs), { atMost: 1.4 });
  await Promise.all([cellwright.client.close(), noop.client.close()]);
  raw.close();
}

/** Eight sessions that compute, compared with the same work in one. */
async function measureParallel() {
  const { open, dispose } = await engine({});
  const sessions = await Promise.all(Array.from({ length: 8 }, open));
  const work = "total = 0\nfor i in range(6_000_000): total += i";
  const single = await median(3, () => sessions[0].execute(work).finished);
  const all = await median(3, () => Promise.all(sessions.map((session) => session.execute(work).finished)));
  const ideal = (8 * single) / Math.min(availableParallelism(), 8);
  report.ratio("8 sessions that compute, times (8 × one ÷ processors)", all / ideal, { atMost: 1.3 });
  await dispose();
}

/** A plotly figure as a picture: with the browser's start, then with a warm browser. */
async function measurePicture() {
  const cellwright = await connect();
  const session_id = await cellwright.run("import plotly.graph_objects as go");
  const draw = () => cellwright.run("go.Figure(go.Scatter(y=[1, 4, 9]))", session_id);
  const first = await median(1, draw);
  report.say("a plotly figure, ms: first / next", `${first.toFixed(0)} / ${(await median(5, draw)).toFixed(0)}`);
  await cellwright.client.close();
}

function connect() {
  return connectTo([program, "--data-dir", folder, "--kernel", "local", "--env", env, "--warm", "0"]);
}

async function engine(options) {
  const dataDir = mkdtempSync(join(folder, "engine-"));
  const cellwright = await createCellwright({ kernel: "local", env, warm: 0, dataDir, ...options });
  const open = () => cellwright.createSession();
  return {
    open,
    async first() {
      const session = await open();
      const { status } = await session.execute(imports).finished;
      if (status !== "ok") throw new Error(`the first cell: ${status}`);
    },
    memoryMb: () => middle(processesOfSessions(dataDir).map(shareOfMemoryMb)),
    dispose: () => cellwright.dispose(),
  };
}

/** The processes of each session: the kernel and those of its jail. */
function processesOfSessions(dataDir) {
  const sessions = join(dataDir, "sessions");
  return readdirSync(sessions).map((id) => {
    const { pid } = JSON.parse(readFileSync(join(sessions, id, "run", "kernel.json"), "utf8")).process;
    return [pid, ...descendants(pid)];
  });
}
