// What must hold after every case, whatever its outcome: the server answers, nothing is left behind, another session is
// intact, and the server's memory did not grow.
import { readdirSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import { protects, sleep, timed } from "./case.mjs";
import { descendants, isAlive, rssMb } from "./server.mjs";

const MAX_GROWTH_MB = 64;
/** Descriptors come and go with timers of Node and of the SDK. */
const FD_SLACK = 8;
const SETTLE_MS = 8_000;

/** On an idle machine a second; on a busy one, a slow answer proves little. */
const maxAnswerMs = () => {
  const load = loadavg()[0] / cpus().length;
  return load > 1 ? Math.min(load, 5) * 3_000 : 1_000;
};

export function takeState(server) {
  return { rss: rssMb(server.pid), processes: processesOf(server), fds: fdsOf(server) };
}

export async function checkInvariants(server, before) {
  protects(isAlive(server.pid), "the server is dead");
  const { ms } = await timed(() => server.admin.call("list_sessions", {}, { timeout: 10_000 }));
  protects(ms < maxAnswerMs(), `the server took ${Math.round(ms)} ms to answer`);
  const { value: reply, ms: neighbourMs } = await timed(() =>
    server.admin.run("keep", { session_id: server.neighbour }, { timeout: 10_000 }),
  );
  protects(reply.text.includes(server.keep), `the neighbour lost its variable: ${reply.text.slice(0, 200)}`);
  protects(neighbourMs < maxAnswerMs(), `the neighbour took ${Math.round(neighbourMs)} ms to answer`);
  await settles(
    () => processesOf(server) <= before.processes,
    "processes are left",
    () => processesOf(server),
  );
  await settles(
    () => readdirSync(server.tmpDir).length === 0,
    "temporary files are left",
    () => readdirSync(server.tmpDir).join(", "),
  );
  await settles(
    () => strays(server).length === 0,
    "folders of ended kernels are left",
    () => strays(server).join(", "),
  );
  await settles(
    () => fdsOf(server) <= before.fds + FD_SLACK,
    "descriptors are left",
    () => fdsOf(server),
  );
  const grown = () => rssMb(server.pid) - before.rss;
  await settles(
    () => {
      if (grown() < MAX_GROWTH_MB) return true;
      server.collect();
      return false;
    },
    "the server's memory grew",
    () => `${Math.round(grown())} MB`,
  );
}

async function settles(condition, problem, detail) {
  const deadline = performance.now() + SETTLE_MS;
  while (!(await condition())) {
    protects(performance.now() < deadline, `${problem}: ${detail()}`);
    await sleep(100);
  }
}

function processesOf(server) {
  return descendants(server.pid).filter(isAlive).length;
}

function fdsOf(server) {
  try {
    return readdirSync(`/proc/${server.pid}/fd`).length;
  } catch {
    return 0;
  }
}

/** Sessions on disk that no case should have left, and extra kernel folders in those that stay. */
function strays(server) {
  const sessions = join(server.dataDir, "sessions");
  const others = readdirSync(sessions).filter((id) => !server.kept.has(id));
  const kernels = [...server.kept].flatMap((id) =>
    readdirSync(join(sessions, id, "run"))
      .filter((name) => name.startsWith("deno-"))
      .slice(1),
  );
  return [...others, ...kernels];
}
