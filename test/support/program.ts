import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as StdioV2 } from "@modelcontextprotocol/client/stdio";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as StdioV1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as HttpV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { onTestFinished } from "vitest";
import { linkTestCache, programPath } from "./paths.ts";

export { programPath } from "./paths.ts";
export { until } from "./until.ts";

/** Clients of all protocol eras that users have. */
export const clientKinds = ["v1", "v2 legacy", "v2 modern"] as const;
export type ClientKind = (typeof clientKinds)[number];

export interface Reply {
  text: string;
  isError: boolean;
  content: { type: string; [key: string]: unknown }[];
  execution: {
    session_id: string;
    execution_id: string;
    status: string;
    execution_count: number | null;
    duration_ms: number;
  };
  structured?: Record<string, unknown>;
}

export interface CallOptions {
  signal?: AbortSignal;
  onprogress?: (progress: { progress: number; message?: string }) => void;
  timeout?: number;
}

/** Only for a hang to end: on a busy machine a short cell can take longer than a call waits by default. */
const CALL_LIMIT_MS = 170_000;
const PATIENCE_S = 160;

export interface TestClient {
  call(name: string, args?: Record<string, unknown>, options?: CallOptions): Promise<Reply>;
  run(code: string, args?: Record<string, unknown>): Promise<Reply>;
  raw: ClientV1 | ClientV2;
  close(): Promise<void>;
}

/** A separate data folder that shares only the interpreter's snapshot, which takes seconds to build. */
export function temporaryDataDir(atEnd: AtEnd = onTestFinished): string {
  const dir = mkdtempSync(join(tmpdir(), "cellwright-test-"));
  linkTestCache(dir);
  atEnd(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** What cleans up: the running test, or the suite if it shares what it starts. */
export type AtEnd = (cleanUp: () => void | Promise<void>) => void;

interface StartOptions {
  atEnd?: AtEnd;
  kind?: ClientKind;
  args?: string[];
  env?: Record<string, string>;
  dataDir?: string;
}

/** Starts the program the way an MCP client does, and connects to it. */
export async function startStdio({
  kind = "v2 legacy",
  args = [],
  env = {},
  atEnd = onTestFinished,
  dataDir = temporaryDataDir(atEnd),
}: StartOptions = {}): Promise<TestClient & { pid: number; dataDir: string; stderr(): string }> {
  const command = {
    command: process.execPath,
    args: [programPath, "--data-dir", dataDir, ...args],
    env: programEnv(env),
    stderr: "pipe" as const,
  };
  const transport = kind === "v1" ? new StdioV1(command) : new StdioV2(command);
  let stderr = "";
  transport.stderr?.on("data", (chunk) => {
    stderr += chunk;
  });
  const client = await connect(kind, transport as never);
  atEnd(() => client.close());
  return { ...client, pid: transport.pid ?? 0, dataDir, stderr: () => stderr };
}

export interface HttpProgram {
  url: string;
  /** The generated token; undefined if tokens were given or disabled. */
  token: string | undefined;
  /** With this token, for requests without a client. */
  headers: Record<string, string>;
  process: ChildProcess;
  pid: number;
  dataDir: string;
  stderr(): string;
  client(kind?: ClientKind, token?: string): Promise<TestClient>;
  stop(signal?: NodeJS.Signals): Promise<void>;
}

/** Starts `cellwright serve` on a free port. */
export async function startHttp({
  args = [],
  env = {},
  atEnd = onTestFinished,
  dataDir = temporaryDataDir(atEnd),
}: StartOptions = {}): Promise<HttpProgram> {
  const child = spawn(process.execPath, [programPath, "serve", "--port", "0", "--data-dir", dataDir, ...args], {
    env: programEnv(env),
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stderr = "";
  let stdout = "";
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.on("data", (chunk) => {
      stdout += chunk;
      const found = /http:\/\/\S+\/mcp/.exec(stdout);
      if (found) resolve(found[0]);
    });
    child.once("exit", (code) => reject(new Error(`exit ${code}: ${stderr}`)));
  });
  const stop = async (signal: NodeJS.Signals = "SIGTERM") => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
  };
  atEnd(() => stop());
  const token = madeToken(dataDir);
  return {
    url,
    token,
    headers: bearer(token),
    process: child,
    pid: child.pid ?? 0,
    dataDir,
    stderr: () => stderr,
    stop,
    async client(kind = "v2 legacy", shown = token) {
      const options = { requestInit: { headers: bearer(shown) } };
      const transport = kind === "v1" ? new HttpV1(new URL(url), options) : new HttpV2(new URL(url), options);
      const client = await connect(kind, transport as never);
      atEnd(() => client.close());
      return client;
    },
  };
}

/** The token that a server keeps in its data folder, or a pool. */
export function madeToken(dataDir: string, name = "auth-token"): string | undefined {
  try {
    return readFileSync(join(dataDir, name), "utf8").trim();
  } catch {
    return undefined;
  }
}

export function bearer(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

async function connect(kind: ClientKind, transport: never): Promise<TestClient> {
  const info = { name: "cellwright-test", version: "1.0.0" };
  const raw =
    kind === "v1"
      ? new ClientV1(info)
      : new ClientV2(info, kind === "v2 modern" ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {});
  await raw.connect(transport);
  const call: TestClient["call"] = async (name, args = {}, options = {}) => {
    const request = { name, arguments: args };
    const withTimeout = { timeout: CALL_LIMIT_MS, ...options };
    const result =
      raw instanceof ClientV1
        ? await raw.callTool(request, undefined, withTimeout)
        : await raw.callTool(request, withTimeout);
    return readReply(result as never);
  };
  const run: TestClient["run"] = (code, args = {}) => call("execute_code", { code, wait_s: PATIENCE_S, ...args });
  return { raw, call, run, close: () => raw.close() };
}

function readReply(result: {
  content: Reply["content"];
  isError?: boolean;
  _meta?: Record<string, unknown>;
  structuredContent?: never;
}): Reply {
  return {
    text: result.content.map((block) => (block.type === "text" ? block.text : "")).join("\n"),
    isError: result.isError === true,
    content: result.content,
    execution: result._meta?.["cellwright/execution"] as Reply["execution"],
    structured: result.structuredContent,
  };
}

/** Without warm kernels: a server would start two for one session, which is most of the cost of a test. */
export function programEnv(extra: Record<string, string>): Record<string, string> {
  return { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "", CELLWRIGHT_WARM: "0", ...extra };
}

/** All descendants of a process, on Linux; to check that none is left. */
export function descendants(pid: number): number[] {
  const children = readChildren(pid);
  return [...children, ...children.flatMap(descendants)];
}

function readChildren(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
