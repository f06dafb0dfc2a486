import type { IncomingMessage, ServerResponse } from "node:http";

/** How long a client that is still sending may take to notice the refusal. */
const LINGER_MS = 2_000;

export interface RefusalOptions {
  code?: number;
  headers?: Record<string, string>;
  /** Only the message, as plain text. */
  plain?: boolean;
}

/**
 * Refuses a request, in the format of JSON-RPC clients. An unread body is discarded: the connection closes, but only
 * after the client had time to read the answer.
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
