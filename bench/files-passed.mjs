// Counts the server's files in which a warm `execute_code` runs code: V8's call counts from just before the call until
// its reply, for a `1 + 1` over stdio on a forked local kernel. Files that only some of several cells pass belong to
// timers that fired meanwhile.
import { dirname } from "node:path";
import WebSocket from "ws";
import { folder, freePorts, measure, program, python, report } from "./bench.mjs";
import { connectTo } from "./client.mjs";

const dist = new URL("../dist/", import.meta.url).href;

await measure(async () => {
  const [port] = await freePorts(1);
  const local = ["--kernel", "local", "--env", dirname(dirname(python)), "--data-dir", folder];
  const server = await connectTo([`--inspect=127.0.0.1:${port}`, program, ...local]);
  const inspector = await inspect(port);
  const session = await server.run("1 + 1");
  for (let cell = 0; cell < 5; cell += 1) await server.run("1 + 1", session);

  await inspector.ask("Profiler.enable");
  await inspector.ask("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  const cells = [];
  for (let cell = 0; cell < 5; cell += 1) cells.push(await filesPassed(inspector, () => server.run("1 + 1", session)));
  const passed = cells[0].filter((file) => cells.every((files) => files.includes(file))).sort();
  if (process.argv.includes("--list")) for (const file of passed) console.log(`  ${file}`);
  report.ratio("files that a warm cell passes", passed.length, { atMost: 50 });
  inspector.close();
  await server.client.close();
});

async function filesPassed(inspector, work) {
  // Reading resets the counts.
  await inspector.ask("Profiler.takePreciseCoverage");
  await work();
  const { result } = await inspector.ask("Profiler.takePreciseCoverage");
  return result
    .filter(({ url, functions }) => url.startsWith(dist) && functions.some(({ ranges }) => ranges[0].count > 0))
    .map(({ url }) => url.slice(dist.length));
}

async function inspect(port) {
  const [{ webSocketDebuggerUrl }] = await (await fetch(`http://127.0.0.1:${port}/json`)).json();
  const socket = new WebSocket(webSocketDebuggerUrl, { perMessageDeflate: false });
  await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
  let last = 0;
  return {
    ask: (method, params = {}) =>
      new Promise((resolve, reject) => {
        last += 1;
        const id = last;
        const take = (data) => {
          const answer = JSON.parse(data);
          if (answer.id !== id) return;
          socket.off("message", take);
          if (answer.error) reject(new Error(answer.error.message));
          else resolve(answer.result);
        };
        socket.on("message", take);
        socket.send(JSON.stringify({ id, method, params }));
      }),
    close: () => socket.close(),
  };
}
