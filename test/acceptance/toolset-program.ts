/** A toolset's server, started as its users start it, and a client that gets the raw replies. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { onTestFinished } from "vitest";
import { type AtEnd, bearer, madeToken, programEnv, programPath, temporaryDataDir } from "../support/program.ts";

export interface RawReply {
  content: { type: string; text?: string; data?: string; mimeType?: string; uri?: string }[];
  structuredContent?: Record<string, unknown>;
  isError?: boolean;
}

export interface ToolsetClient {
  call(name: string, args?: Record<string, unknown>): Promise<RawReply>;
  client: Client;
  dataDir: string;
  pid: number;
  stderr(): string;
  close(): Promise<void>;
}

export interface ToolsetStart {
  args?: string[];
  env?: Record<string, string>;
  cwd?: string;
  dataDir?: string;
  atEnd?: AtEnd;
}

export async function startToolset(
  toolset: string,
  { args = [], env = {}, cwd, atEnd = onTestFinished, dataDir = temporaryDataDir(atEnd) }: ToolsetStart = {},
): Promise<ToolsetClient> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [programPath, "--toolset", toolset, "--data-dir", dataDir, ...args],
    env: programEnv(env),
    ...(cwd === undefined ? {} : { cwd }),
    stderr: "pipe",
  });
  let stderr = "";
  transport.stderr?.on("data", (chunk) => {
    stderr += chunk;
  });
  const client = await connected(transport as never);
  const close = () => client.close();
  atEnd(close);
  return { call: caller(client), client, dataDir, pid: transport.pid ?? 0, stderr: () => stderr, close };
}

export interface ToolsetServer extends ToolsetClient {
  /** As printed by the program, ending in `/mcp`. */
  url: string;
  /** With the server's token. */
  headers: Record<string, string>;
}

/** The same for a toolset that is served over HTTP by default. */
export async function startToolsetServer(
  toolset: string,
  { args = [], env = {}, atEnd = onTestFinished, dataDir = temporaryDataDir(atEnd) }: ToolsetStart = {},
): Promise<ToolsetServer> {
  const all = [programPath, "--toolset", toolset, "--data-dir", dataDir, ...args];
  const child = spawn(process.execPath, all, { env: programEnv(env), stdio: ["ignore", "pipe", "pipe"] });
  let stderr = "";
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    await exited;
  };
  atEnd(stop);
  const url = await new Promise<string>((resolve, reject) => {
    let stdout = "";
    child.stdout.on("data", (chunk) => {
      stdout += chunk;
      const found = /http:\/\/\S+\/mcp/.exec(stdout);
      if (found) resolve(found[0]);
    });
    child.once("exit", (code) => reject(new Error(`exit ${code}: ${stderr}`)));
  });
  const headers = bearer(madeToken(dataDir));
  const client = await connected(
    new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }) as never,
  );
  const close = async () => {
    await client.close();
    await stop();
  };
  atEnd(() => client.close());
  return { call: caller(client), client, url, headers, dataDir, pid: child.pid ?? 0, stderr: () => stderr, close };
}

async function connected(transport: never): Promise<Client> {
  const client = new Client({ name: "acceptance", version: "1.0.0" });
  await client.connect(transport);
  return client;
}

function caller(client: Client): ToolsetClient["call"] {
  return async (name, args = {}) =>
    (await client.callTool({ name, arguments: args }, undefined, { timeout: 120_000 })) as RawReply;
}

/** All text of a reply. */
export function textOf({ content }: RawReply): string {
  return content.flatMap(({ type, text }) => (type === "text" ? [text] : [])).join("\n");
}

export function imagesOf({ content }: RawReply): Buffer[] {
  return content.flatMap(({ type, data }) => (type === "image" ? [Buffer.from(String(data), "base64")] : []));
}
