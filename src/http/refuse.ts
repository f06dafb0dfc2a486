import type { IncomingMessage, ServerResponse } from "node:http";

/** A client that is still sending gets so long to notice that it was refused. */
const LINGER_MS = 2_000;

export interface RefusalOptions {
  code?: number;
  headers?: Record<string, string>;
  /** The message alone, for people. */
  plain?: boolean;
}

/**
 * Answers a request that is not served, as JSON-RPC clients expect it. A body that was not read is not read any more:
 * the connection ends, but only after the client had the time to see the answer.
 */
export function refuse(
  response: ServerResponse,
  status: number,
  message: string,
  { code = -32000, headers = {}, plain = false }: RefusalOptions = {},
): void {
  if (response.headersSent) return void response.destroy();
  const body = plain ? `${message}\n` : JSON.stringify({ jsonrpc: "2.0", id: null, error: { code, message } });
  const unread = !response.req.complete;
  response.writeHead(status, {
    "content-type": plain ? "text/plain" : "application/json",
    "content-length": Buffer.byteLength(body),
    ...(unread ? { connection: "close" } : {}),
    ...headers,
  });
  if (!unread) return void response.end(body);
  response.write(body);
  discard(response.req, () => response.end());
}

function discard(request: IncomingMessage, done: () => void): void {
  const timer = setTimeout(done, LINGER_MS);
  const finish = () => {
    clearTimeout(timer);
    done();
  };
  request.once("end", finish);
  request.once("close", finish);
  request.resume();
}
