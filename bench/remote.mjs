// Overhead of a Jupyter server, as ratios of one run; `--check` fails if a limit is missed.
//
//   CELLWRIGHT_JUPYTER_PYTHON   an interpreter with jupyter_server and ipykernel
import { spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import WebSocket from "ws";
import { JupyterServer } from "../dist/kernels/remote/server/server.js";
import { startRemote } from "../dist/kernels/remote/start.js";
import { createLog } from "../dist/log.js";
import { folder, freePorts, here, measure, report } from "./bench.mjs";
import { mediansInTurn } from "./measure.mjs";

const python = process.env.CELLWRIGHT_JUPYTER_PYTHON ?? here("../.cache/test-python/jupyter-server/bin/python");
const token = randomBytes(16).toString("hex");
const log = createLog("error");
const ROUNDS = 60;

const { url, stop } = await startServer();
await measure(() => measureWarmCell().finally(stop));

/**
 * A warm cell, by the Cellwright channel with and without pongs, and by a minimal `ws` client, which sends pongs, too:
 * otherwise the comparison would only measure these.
 */
async function measureWarmCell() {
  const cellwright = await kernel({});
  const patient = await kernel({ acknowledges: false });
  const bare = await bareClient();
  const cell = (one) => async () => {
    for await (const _event of one.execute("1 + 1"));
  };
  const works = [cell(cellwright), cell(patient), bare.run];
  for (const work of works) for (let i = 0; i < 5; i += 1) await work();
  const [oursMs, patientMs, bareMs] = await mediansInTurn(ROUNDS, works);
  report.say(
    "warm cell, ms: cellwright / without pongs / bare ws client",
    [oursMs, patientMs, bareMs].map((ms) => ms.toFixed(1)).join(" / "),
  );
  report.ratio("our warm cell, times a bare ws client's", oursMs / bareMs, { atMost: 1.2 });
  report.ratio("with pongs, times faster than without", patientMs / oursMs, { atLeast: 2 });
  bare.close();
  await Promise.all([cellwright.dispose(), patient.dispose()]);
}

function kernel(times) {
  const server = new JupyterServer({ url, token, times, log });
  const name = randomUUID();
  return startRemote({
    server,
    language: "python",
    workingDir: name,
    runDir: join(folder, `run-${name}`),
    startTimeoutMs: 60_000,
    signal: AbortSignal.timeout(60_000),
    log,
  });
}

/** A stock kernel and a plain WebSocket. */
async function bareClient() {
  const server = new JupyterServer({ url, token, log });
  const id = await server.createKernel(AbortSignal.timeout(60_000));
  const session = randomUUID();
  const socket = new WebSocket(`${url.replace("http", "ws")}/api/kernels/${id}/channels?session_id=${session}`, {
    headers: { Authorization: `token ${token}` },
    perMessageDeflate: false,
  });
  await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
  const run = () =>
    new Promise((resolve) => {
      const msg_id = randomUUID();
      let parts = 0;
      const take = (data) => {
        socket.pong();
        const { parent_header, header, content } = JSON.parse(data);
        if (parent_header.msg_id !== msg_id) return;
        if (header.msg_type === "execute_reply" || content.execution_state === "idle") parts += 1;
        if (parts < 2) return;
        socket.off("message", take);
        resolve();
      };
      socket.on("message", take);
      const header = { msg_id, msg_type: "execute_request", session, username: "", date: "", version: "5.3" };
      const content = { code: "1 + 1", silent: false, store_history: true, user_expressions: {}, allow_stdin: false };
      socket.send(JSON.stringify({ channel: "shell", header, parent_header: {}, metadata: {}, content, buffers: [] }));
    });
  return { run, close: () => socket.terminate() };
}

async function startServer() {
  const [port] = await freePorts(1);
  const args = ["-m", "jupyter_server", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1"];
  const child = spawn(python, [...args, `--ServerApp.port=${port}`, `--ServerApp.root_dir=${folder}`], {
    env: { PATH: process.env.PATH, HOME: folder, JUPYTER_TOKEN: token, LANG: "C.UTF-8" },
    stdio: "ignore",
    detached: true,
  });
  const address = `http://127.0.0.1:${port}`;
  const server = new JupyterServer({ url: address, token, log });
  for (;;) {
    if (child.exitCode !== null) throw new Error("The Jupyter server did not start.");
    if (await server.check(AbortSignal.timeout(5_000)).catch(() => undefined)) break;
    await pause(100);
  }
  return { url: address, stop: () => child.kill("SIGTERM") };
}
