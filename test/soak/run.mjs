// Many sessions, consecutive and concurrent, a tenth of them killed: nothing may leak or grow.
//
//   node test/soak/run.mjs [--sessions 200]     on a local environment, see test/support/pythons.ts
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { connectTo } from "../../bench/client.mjs";
import { descendants, memoryMb } from "../../bench/measure.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { values } = parseArgs({ options: { sessions: { type: "string", default: "200" }, short: { type: "boolean" } } });
const count = Number(values.sessions);
const KILLED_EVERY = 10;
/** Concurrent sessions. */
const AT_ONCE = 4;
/** Allowed growth of the server from the first fifth of the sessions to the end. A leak of a kilobyte each would show. */
const MAX_GROWTH_MB = 24;

const python = process.env.CELLWRIGHT_TEST_PYTHON ?? join(root, ".cache/test-env/bin/python");
const dataDir = mkdtempSync(join(tmpdir(), "cellwright-soak-"));
const before = { shm: readdirSync("/dev/shm"), links: links(), processes: processes() };
const args = ["--kernel", "local", "--env", dirname(dirname(python)), "--warm", "0", "--data-dir", dataDir];
const server = await connectTo([join(root, "dist/main.js"), ...args]);
const failures = [];
let killed = 0;
let early = 0;

try {
  for (let first = 0; first < count; first += AT_ONCE) {
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - first) }, (_, i) => one(first + i)));
    if (early === 0 && first >= count / 5) early = await settledMemory();
  }
  const late = await settledMemory();
  expect(late - early <= MAX_GROWTH_MB, `the server grew by ${(late - early).toFixed(1)} MB`);
  console.log(`${count} sessions, ${killed} of them killed; server ${early.toFixed(0)} → ${late.toFixed(0)} MB`);
  // The zygote stays for the next session; nothing else does.
  await settle("processes of closed sessions", () => kernels().length === 0);
  await settle("zombies", () => zombies().length === 0);
  const left = readdirSync(join(dataDir, "sessions")).filter((id) => existsSync(join(dataDir, "sessions", id, "run")));
  expect(left.length === 0, `${left.length} run folders are left`);
} finally {
  await server.client.close();
}
await settle("processes after the end", () =>
  processes().every((pid) => before.processes.includes(pid) || !isOurs(pid)),
);
expect(same(readdirSync("/dev/shm"), before.shm), "something is left in /dev/shm");
rmSync(dataDir, { recursive: true, force: true });
expect(same(links(), before.links), `links to sockets are left: ${links().join(", ")}`);
for (const failure of failures) console.error(`FAILED: ${failure}`);
process.exit(failures.length > 0 ? 1 : 0);

/** A session with Python, shared memory and a shell; every tenth loses its kernel by force. */
async function one(index) {
  const dies = index % KILLED_EVERY === KILLED_EVERY - 1;
  const session_id = await server.run("import numpy, multiprocessing.shared_memory as m\nx = 1\nprint(x)");
  if (index === 0) expect(kernels().length > 0, "the processes of a session are not seen, so nothing is shown");
  if (index % 4 === 0) await call("execute_code", { session_id, language: "bash", code: "sleep 1000 & echo ok" });
  if (dies) {
    const { pid } = JSON.parse(readFileSync(join(dataDir, "sessions", session_id, "run/kernel.json"), "utf8")).process;
    process.kill(pid, "SIGKILL");
    killed += 1;
    const { _meta } = await call("execute_code", { session_id, code: "1 + 1" });
    expect(_meta["cellwright/execution"].status !== "error", "a session whose kernel was killed does not go on");
  }
  await call("close_session", { session_id, delete_files: index % 2 === 0 });
}

async function call(name, args) {
  const result = await server.client.callTool({ name, arguments: args }, { timeout: 120_000 });
  expect(!result.isError, `${name}: ${JSON.stringify(result.content)}`);
  return result;
}

/** The smallest of several measurements: garbage that was not collected yet is not a leak. */
async function settledMemory() {
  let least = Number.POSITIVE_INFINITY;
  for (let look = 0; look < 10; look += 1) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    least = Math.min(least, memoryMb([server.pid]));
  }
  return least;
}

async function settle(what, isSettled) {
  const deadline = performance.now() + 15_000;
  while (!isSettled()) {
    if (performance.now() > deadline) return expect(false, `still there: ${what}: ${kernels().join("; ")}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Processes of sessions: all of ours except the server and its zygote. */
function kernels() {
  return processes()
    .filter((pid) => !before.processes.includes(pid) && pid !== String(server.pid) && isOurs(pid) && !isZygote(pid))
    .map((pid) => `${pid} ${commandOf(pid)}`);
}

function zombies() {
  return [...new Set([...descendants(server.pid), ...processes().filter(isZygote).flatMap(descendants)])].filter(
    (pid) => /^State:\s+Z/m.test(read(`/proc/${pid}/status`)),
  );
}

/** Processes whose command line, mounts or open files name our data folder. */
function isOurs(pid) {
  if (commandOf(pid).includes(dataDir) || read(`/proc/${pid}/mountinfo`).includes(dataDir)) return true;
  try {
    const folder = `/proc/${pid}/fd`;
    return readdirSync(folder).some((fd) => readlinkSync(join(folder, fd)).includes(dataDir));
  } catch {
    // It has ended.
    return false;
  }
}

/** A kernel has the zygote's command line, too, but its parent is the zygote. */
function isZygote(pid) {
  return commandOf(pid).includes("zygote.py") && !commandOf(parentOf(pid)).includes("zygote.py");
}

function parentOf(pid) {
  return /^PPid:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? "";
}

function commandOf(pid) {
  return read(`/proc/${pid}/cmdline`).replaceAll("\0", " ");
}

function processes() {
  return readdirSync("/proc").filter((name) => /^\d+$/.test(name));
}

function read(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** Short links to sockets whose own path is too long for an address. */
function links() {
  const folder = join(tmpdir(), `cellwright-${process.getuid()}`);
  return existsSync(folder) ? readdirSync(folder) : [];
}

function same(one, other) {
  return [...one].sort().join() === [...other].sort().join();
}

function expect(holds, failure) {
  if (!holds && !failures.includes(failure)) failures.push(failure);
}
