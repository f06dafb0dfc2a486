import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export interface SandboxCall {
  method: string;
  path: string;
  body: Record<string, unknown>;
}

type Answer = (call: SandboxCall, request: IncomingMessage, response: ServerResponse) => void;

/** A sandbox of a pool with scripted answers, which records its requests. */
export interface FakeSandbox {
  url: string;
  name: string;
  calls: SandboxCall[];
  /** Cells that were run there, without cleared sessions. */
  codes(): unknown[];
  answer: Answer;
  /** Stops listening on its port. */
  close(): Promise<void>;
  listen(): Promise<void>;
}

export async function startFakeSandbox(): Promise<FakeSandbox> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method = "", url: path = "" } = request;
    const call = { method, path, body: JSON.parse(Buffer.concat(chunks).toString()) };
    sandbox.calls.push(call);
    sandbox.answer(call, request, response);
  });
  let port = 0;
  const sandbox: FakeSandbox = {
    url: "",
    name: "",
    calls: [],
    codes: () => sandbox.calls.filter(({ path }) => path === "/jupyter_sandbox").map(({ body }) => body.code),
    answer: success({}),
    listen: async () => {
      server.listen(port, "127.0.0.1");
      await once(server, "listening");
      port = (server.address() as AddressInfo).port;
    },
    close: async () => {
      server.closeAllConnections();
      if (server.listening) await new Promise((resolve) => server.close(resolve));
    },
  };
  onTestFinished(sandbox.close);
  await sandbox.listen();
  sandbox.url = `http://127.0.0.1:${port}`;
  sandbox.name = String(port);
  return sandbox;
}

export function success(output: { stdout?: string; stderr?: string; images?: string[]; result?: string }): Answer {
  return json({ status: "success", execution_time: 0.1, output: { stdout: "", stderr: "", images: [], ...output } });
}

export function json(value: unknown, status = 200): Answer {
  return (_call, _request, response) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(value));
  };
}
