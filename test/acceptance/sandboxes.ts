/** Sandboxes behind HTTP for tests: real ones, and a scripted one for behaviour that real ones never show. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { type AtEnd, madeToken, programPath, startStdio, temporaryDataDir } from "../support/program.ts";

export interface SandboxCall {
  path: string;
  body: { session_id: string; code: string; timeout: number };
  response: ServerResponse;
}

/** A scripted sandbox's response to a request; an object is sent as JSON. */
export type Behaviour = (call: SandboxCall) => object | undefined | Promise<object | undefined>;

export interface ScriptedSandbox {
  url: string;
  port: string;
  /** All requests, except those that clear a session. */
  calls: SandboxCall[];
  cleared: string[];
  behave(behaviour: Behaviour): void;
  stop(): Promise<void>;
}

export const succeeded = (stdout = "") => ({
  status: "success",
  execution_time: 0.156,
  output: { stdout, stderr: "", images: [] },
});

/** Answers every cell with its own name, until the script changes. */
export async function startScripted(port = 0, atEnd: AtEnd = onTestFinished): Promise<ScriptedSandbox> {
  const calls: SandboxCall[] = [];
  const cleared: string[] = [];
  let behaviour: Behaviour = () => succeeded(`on ${sandbox.port}\n`);
  const server = createServer(async (request, response) => {
    const call = { path: request.url ?? "", body: JSON.parse(await textOf(request)), response };
    if (call.path === "/clear_session") {
      cleared.push(call.body.session_id);
      return void answer(response, { status: "success" });
    }
    calls.push(call);
    const said = await behaviour(call);
    if (said) answer(response, said);
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const address = server.address() as AddressInfo;
  const stop = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  const sandbox: ScriptedSandbox = {
    url: `http://127.0.0.1:${address.port}`,
    port: String(address.port),
    calls,
    cleared,
    behave: (next) => {
      behaviour = next;
    },
    stop,
  };
  atEnd(() => stop());
  return sandbox;
}

export function answer(response: ServerResponse, body: object | string, status = 200): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(typeof body === "string" ? body : JSON.stringify(body));
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += chunk;
  return text;
}

/** `cellwright pool`: real sandboxes on these ports. Resolves when they listen. */
export async function startPool(
  ports: string,
  args: string[],
  atEnd: AtEnd,
): Promise<{ urls: string[]; env: Record<string, string>; dataDir: string }> {
  const dataDir = temporaryDataDir(atEnd);
  const child = spawn(process.execPath, [programPath, "pool", "--ports", ports, "--data-dir", dataDir, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  atEnd(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGTERM");
    await once(child, "exit");
  });
  let said = "";
  child.stderr.on("data", (chunk) => {
    said += chunk;
  });
  const urls = await new Promise<string[]>((resolve, reject) => {
    let printed = "";
    child.stdout.on("data", (chunk) => {
      printed += chunk;
      if (printed.includes("Ctrl-C")) resolve([...new Set(printed.match(/http:\/\/[\d.:]+/g))]);
    });
    child.once("exit", (code) => reject(new Error(`the pool ended with ${code}: ${said}`)));
  });
  return { dataDir, urls, env: { CELLWRIGHT_POOL_TOKEN: madeToken(dataDir, "pool-token") ?? "" } };
}

/** The toolset, started as its users do, in front of these sandboxes. */
export async function startBalancer(
  urls: string[],
  {
    args = [],
    env = {},
    atEnd = onTestFinished,
  }: { args?: string[]; env?: Record<string, string>; atEnd?: AtEnd } = {},
) {
  const pool = urls.flatMap((url) => ["--pool-url", url]);
  const client = await startStdio({ args: ["--toolset", "code-interpreter-lb", ...pool, ...args], env, atEnd });
  return {
    ...client,
    async python(code: string, { session_id = "s", ...more }: Record<string, unknown> = {}) {
      return readBlocks(await client.call("execute_python", { session_id, code, ...more }));
    },
    async status(): Promise<BalancerStatus> {
      const { contents } = await client.raw.readResource({ uri: "balancer://status" });
      const [content] = contents as { text: string; mimeType: string }[];
      return JSON.parse(content?.text ?? "");
    },
  };
}

export type Balancer = Awaited<ReturnType<typeof startBalancer>>;

export interface BalancerStatus {
  ports: Record<string, { status: string; active_sessions: number; error_count: number; last_used: string }>;
  total_sessions: number;
}

/** The blocks of a reply: texts as they are, pictures by their type. */
function readBlocks(reply: { content: { type: string; [key: string]: unknown }[]; isError: boolean }) {
  const blocks = reply.content.map((block) => (block.type === "text" ? String(block.text) : `[${block.mimeType}]`));
  const between = (heading: string) =>
    blocks.find((text) => text.startsWith(heading))?.slice(`${heading}\n\`\`\`\n`.length, -"\n```".length);
  return {
    isError: reply.isError,
    content: reply.content,
    blocks,
    status: /^\*\*Execution Status\*\*: (\w+)\n/.exec(blocks[0] ?? "")?.[1],
    stdout: between("**stdout:**"),
    stderr: between("**stderr:**"),
    error: blocks.find((text) => text.startsWith("**Error**: "))?.slice("**Error**: ".length),
  };
}
