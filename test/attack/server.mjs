// The built program, started as users start it, and MCP clients for it.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

/** A build other than this repository's can be attacked. */
export const programPath =
  process.env.CELLWRIGHT_PROGRAM ?? fileURLToPath(new URL("../../dist/main.js", import.meta.url));
const cacheDir = fileURLToPath(new URL("../../node_modules/.cache/cellwright-test/cache", import.meta.url));

/** Node with a way to collect garbage on demand, for `collect`. */
const node = [process.execPath, "--expose-gc", "--import", new URL("./collector.mjs", import.meta.url).href];

/** Installing packages uses the server's own network, which would hide that of an attack. */
const always = ["--no-install"];
/** The default target of a case. */
const WASM = ["--kernel", "wasm"];

/** Only for a hang to end: on a busy machine a short cell can take longer than a call waits by default. */
const PATIENCE_S = 110;

/** The first start of a kernel builds its snapshot, which no case should wait for. */
export function prepareFirstStart() {
  const dataDir = makeDataDir();
  const { status, stderr } = spawnSync(
    process.execPath,
    [programPath, "run", "-c", "1", ...WASM, "--data-dir", dataDir],
    {
      env: programEnv({}),
      encoding: "utf8",
    },
  );
  rmSync(dataDir, { recursive: true, force: true });
  if (status !== 0) throw new Error(`no WASM session starts: ${stderr}`);
}

/** A separate data folder that shares only the interpreter's snapshot, which takes seconds to build. */
export function makeDataDir() {
  const dir = mkdtempSync(join(tmpdir(), "cellwright-attack-data-"));
  mkdirSync(cacheDir, { recursive: true });
  symlinkSync(cacheDir, join(dir, "cache"));
  return dir;
}

function programEnv(extra) {
  return { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "", ...extra };
}

/** Over stdio, with one client. `launcher` is a command to put in front, for limits around the whole program. */
export async function startStdio({ args = [], env = {}, dataDir = makeDataDir(), launcher = [], kernel = WASM } = {}) {
  const program = [...node, programPath, ...always, ...kernel, "--data-dir", dataDir, ...args];
  const [command, ...rest] = [...launcher, ...program];
  const transport = new StdioClientTransport({ command, args: rest, env: programEnv(env), stderr: "pipe" });
  let stderr = "";
  transport.stderr?.on("data", (chunk) => {
    stderr = (stderr + chunk).slice(-1_000_000);
  });
  const client = await connect(transport);
  let stopped;
  return {
    ...client,
    pid: transport.pid,
    dataDir,
    stderr: () => stderr,
    collect: () => process.kill(transport.pid, "SIGUSR2"),
    stop() {
      stopped ??= client.close().then(() => rmSync(dataDir, { recursive: true, force: true }));
      return stopped;
    },
  };
}

/** Over HTTP on a free port of loopback. */
export async function startHttp({ args = [], env = {}, dataDir = makeDataDir() } = {}) {
  const [command, ...flags] = node;
  const child = spawn(
    command,
    [...flags, programPath, "serve", ...always, ...WASM, "--port", "0", "--data-dir", dataDir, ...args],
    {
      env: programEnv(env),
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  // Unlike one over stdio, it does not notice the end of this process.
  const last = () => child.kill("SIGKILL");
  process.once("exit", last);
  child.once("exit", () => process.off("exit", last));
  let stderr = "";
  let stdout = "";
  child.stderr.on("data", (chunk) => {
    stderr = (stderr + chunk).slice(-1_000_000);
  });
  const url = await new Promise((resolve, reject) => {
    child.stdout.on("data", (chunk) => {
      stdout += chunk;
      const found = /http:\/\/\S+\/mcp/.exec(stdout);
      if (found) resolve(found[0]);
    });
    child.once("exit", (code) => reject(new Error(`exit ${code}: ${stderr}`)));
  });
  const clients = [];
  return {
    url,
    port: Number(new URL(url).port),
    pid: child.pid,
    dataDir,
    stderr: () => stderr,
    collect: () => child.kill("SIGUSR2"),
    /** @param {{ token?: string, modern?: boolean }} [how] */
    async client({ token, modern = false } = {}) {
      const headers = token ? { authorization: `Bearer ${token}` } : {};
      const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
      const client = await connect(transport, { modern });
      clients.push(client);
      return { ...client, mcpSession: transport.sessionId };
    },
    /** @param {NodeJS.Signals} [signal] */
    async stop(signal = "SIGTERM") {
      await Promise.all(clients.splice(0).map((client) => client.close().catch(() => {})));
      if (child.exitCode === null && child.signalCode === null) {
        const exited = once(child, "exit");
        child.kill(signal);
        await exited;
      }
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

async function connect(transport, { modern = false } = {}) {
  const versions = modern ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {};
  const raw = new Client({ name: "cellwright-attack", version: "1.0.0" }, versions);
  await raw.connect(transport);
  const call = async (name, args = {}, options = {}) => {
    const result = await raw.callTool({ name, arguments: args }, { timeout: 120_000, ...options });
    return readReply(result);
  };
  return {
    raw,
    call,
    /** Runs a cell in a session; without one, in a new session. */
    run: (code, args = {}, options = {}) => call("execute_code", { code, wait_s: PATIENCE_S, ...args }, options),
    close: () => raw.close(),
  };
}

function readReply(result) {
  const execution = result._meta?.["cellwright/execution"];
  return {
    text: result.content.map((block) => (block.type === "text" ? block.text : "")).join("\n"),
    /** Everything that a model or a client could see, for searching. */
    whole: JSON.stringify(result),
    isError: result.isError === true,
    content: result.content,
    status: execution?.status,
    session: execution?.session_id,
    execution,
  };
}

/** All descendants of a process. */
export function descendants(pid) {
  const children = readChildren(pid);
  return [...children, ...children.flatMap(descendants)];
}

function readChildren(pid) {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** The words of its command line; empty if it has ended meanwhile. */
export function commandOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return [];
  }
}

export function isAlive(pid) {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

export function rssMb(pid) {
  try {
    return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

/** The program over stdio without a client: lines are written and read directly. */
export function spawnRaw({ args = [], env = {}, dataDir = makeDataDir(), kernel = WASM } = {}) {
  const child = spawn(process.execPath, [programPath, ...always, ...kernel, "--data-dir", dataDir, ...args], {
    env: programEnv(env),
  });
  const lines = [];
  const waiting = new Set();
  let rest = "";
  let noise = "";
  child.stdin.on("error", () => {});
  child.stdout.on("error", () => {});
  child.stderr.resume();
  child.stdout.setEncoding("utf8").on("data", (text) => {
    const parts = (rest + text).split("\n");
    rest = parts.pop();
    for (const part of parts) {
      try {
        lines.push(JSON.parse(part));
      } catch {
        noise += part;
      }
    }
    for (const look of waiting) look();
  });
  /** The first matching line from a position on; undefined on timeout. */
  const next = (from, fits, timeoutMs) =>
    new Promise((resolve) => {
      const end = (line) => {
        clearTimeout(timer);
        waiting.delete(look);
        resolve(line);
      };
      const timer = setTimeout(end, timeoutMs);
      const look = () => {
        const line = lines.slice(from).find(fits);
        if (line) end(line);
      };
      waiting.add(look);
      look();
    });
  const isAnswer = (line) => line.method === undefined;
  return {
    child,
    pid: child.pid,
    lines: () => lines,
    noise: () => noise,
    send: (message) => child.stdin.write(`${JSON.stringify(message)}\n`),
    ask(message, timeoutMs = 60_000) {
      const from = lines.length;
      child.stdin.write(`${JSON.stringify(message)}\n`);
      return next(from, (line) => isAnswer(line) && line.id === message.id, timeoutMs);
    },
    /** Writes a raw line; the next answer counts as its answer, whatever its id. */
    askLine(line, timeoutMs = 30_000) {
      const from = lines.length;
      child.stdin.write(`${line}\n`);
      return next(from, isAnswer, timeoutMs);
    },
    answered: (id, timeoutMs = 10_000) => next(0, (line) => isAnswer(line) && line.id === id, timeoutMs),
    async stop() {
      if (child.exitCode === null && child.signalCode === null) {
        const exited = once(child, "exit");
        child.kill("SIGTERM");
        await exited;
      }
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
