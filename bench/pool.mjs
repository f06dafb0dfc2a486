// Overhead and throughput of a pool, as ratios of one run. No limits: they depend on the number of CPUs.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { request } from "node:http";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { folder, freePorts, measure, program, report } from "./bench.mjs";
import { mediansInTurn } from "./measure.mjs";

const BACKENDS = [1, 2, 4];
const SESSIONS = 8;
const CELLS_MS = 10_000;

const token = randomBytes(32).toString("hex");
const started = [];

await measure(async () => {
  try {
    const ports = await freePorts(Math.max(...BACKENDS));
    await start(["pool", "--kernel", "wasm", "--ports", ports.join(",")], "Press Ctrl-C");
    await measureOverhead(ports[0]);
    await measureThroughput(ports);
  } finally {
    for (const child of started.reverse()) await stop(child);
  }
});

/** A warm cell, sent to the sandbox directly and through a balancer, with the same request. */
async function measureOverhead(port) {
  const front = await startFront([port]);
  const direct = () => cell(port, "direct", "1 + 1");
  const balanced = () => cell(front.port, "balanced", "1 + 1");
  for (let i = 0; i < 50; i += 1) for (const warmUp of [direct, balanced]) await warmUp();
  const [directMs, balancedMs] = await mediansInTurn(300, [direct, balanced]);
  report.say(
    "1 + 1, ms: sandbox alone / through a balancer",
    [directMs, balancedMs].map((ms) => ms.toFixed(2)).join(" / "),
  );
  report.say("through a balancer, times the sandbox alone", (balancedMs / directMs).toFixed(2));
  await stop(front.child);
}

/** Concurrent cells of several sessions, with a growing number of sandboxes. */
async function measureThroughput(ports) {
  const rates = [];
  for (const count of BACKENDS) {
    const front = await startFront(ports.slice(0, count));
    const names = Array.from({ length: SESSIONS }, (_, index) => `load ${count} ${index}`);
    for (const name of names) await cell(front.port, name, "x = 0");
    const ends = performance.now() + CELLS_MS;
    const cells = await Promise.all(
      names.map(async (name) => {
        let done = 0;
        for (; performance.now() < ends; done += 1) await cell(front.port, name, "x = sum(range(20_000))");
        return done;
      }),
    );
    rates.push((cells.reduce((sum, done) => sum + done, 0) * 1000) / CELLS_MS);
    for (const name of names) await post(front.port, "/clear_session", { session_id: name });
    await stop(front.child);
  }
  const shown = (values, digits) => values.map((value) => value.toFixed(digits)).join(" / ");
  const over = `with ${BACKENDS.join(" / ")} sandboxes`;
  report.say(`cells/s of ${SESSIONS} sessions ${over}`, shown(rates, 0));
  report.say(
    `times one sandbox, on ${availableParallelism()} processors`,
    shown(
      rates.map((rate) => rate / rates[0]),
      2,
    ),
  );
}

async function startFront(ports) {
  const urls = ports.flatMap((port) => ["--pool-url", `http://127.0.0.1:${port}`]);
  const [port] = await freePorts(1);
  const child = await start(["serve", "--kernel", "pool", "--port", String(port), ...urls], "listens on");
  return { port, child };
}

async function start(args, ready) {
  const own = mkdtempSync(join(folder, "data-"));
  const child = spawn(process.execPath, [program, ...args, "--data-dir", own], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, CELLWRIGHT_AUTH_TOKEN: token, CELLWRIGHT_POOL_TOKEN: token },
  });
  started.push(child);
  let said = "";
  for await (const chunk of child.stdout) {
    said += chunk;
    if (said.includes(ready)) break;
  }
  return child;
}

async function stop(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGTERM");
  await exited;
}

async function cell(port, session_id, code) {
  const { status, error } = await post(port, "/jupyter_sandbox", { session_id, code, timeout: 60 });
  if (status !== "success") throw new Error(error);
}

/** A new connection per request, like the balancer's. */
function post(port, path, body) {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
    const sent = request({ host: "127.0.0.1", port, path, method: "POST", headers, agent: false }, async (response) => {
      const chunks = [];
      for await (const chunk of response) chunks.push(chunk);
      resolve(JSON.parse(Buffer.concat(chunks).toString()));
    });
    sent.on("error", reject);
    sent.end(JSON.stringify(body));
  });
}
