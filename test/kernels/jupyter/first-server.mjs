/**
 * A server that is going to be killed: forks a kernel, runs cells in it, and writes down what another one needs to take it
 * over. `first-server.mjs <compiled sources> <folder> <zygotes> <python>`; the cells as JSON on stdin. Each
 * event of a cell is a line on stdout.
 */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const [compiled, folder, stateDir, python] = process.argv.slice(2);
const load = (name) => import(join(compiled, "kernels/jupyter", name));
const { openZygote } = await load("zygote-start.js");
const { createConnection } = await load("connection.js");
const { connectZmq } = await load("zmq.js");
const { JupyterKernel, ready } = await load("kernel.js");
const { lifeOf } = await load("kernel-process.js");
const { writeKernelRecord } = await load("kernel-record.js");
const log = { error: console.error, warn: console.error, info() {}, debug() {} };

const runDir = join(folder, "run");
mkdirSync(runDir);
const zygote = await openZygote({ python, stateDir, preload: [], log });
const connection = await createConnection(runDir);
const files = { journalFile: join(runDir, "journal"), heartbeatFile: join(runDir, "heartbeat") };
const forked = await zygote.fork({
  request: { connectionFile: connection.insideFile, workingDir: folder, ttlSeconds: 600 },
  ...files,
  logFile: join(runDir, "log"),
  env: { PATH: "/usr/bin:/bin", HOME: folder },
});
const channel = await connectZmq(connection);
await ready(channel, AbortSignal.timeout(60_000));
const info = { provider: "local", language: "python", description: "Python", walls: [] };
const kernel = new JupyterKernel({ info, channel, life: lifeOf(forked), clientSession: connection.clientId });
await writeKernelRecord(runDir, {
  process: { pid: forked.pid, start: forked.start },
  zygoteSocket: zygote.socketFile,
  connection,
  ...files,
  environment: "managed",
  info,
});
for (const code of JSON.parse(readFileSync(0, "utf8"))) {
  for await (const event of kernel.execute(code)) process.stdout.write(`${JSON.stringify(event)}\n`);
}
process.stdout.write("all cells are done\n");
