import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream } from "node:stream/web";

/** Converts to a web Request for the SDK, without the body, which is parsed already. */
export function toWebRequest(request: IncomingMessage, signal?: AbortSignal): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    for (const one of [value ?? []].flat()) headers.append(name, one);
  }
  // A fixed host: the SDK does not use it, and the Host header is untrusted.
  return new Request("http://localhost/mcp", { method: request.method, headers, signal });
}

/** Streams a response with back-pressure. Ends early, without an error, when the client disconnects. */
export async function writeWebResponse(web: Response, response: ServerResponse): Promise<void> {
  response.writeHead(web.status, Object.fromEntries(web.headers));
  if (!web.body) return void response.end();
  // A stream's first event may take long; headers tell the client that the request was accepted.
  response.flushHeaders();
  try {
    await pipeline(Readable.fromWeb(web.body as ReadableStream), response, { end: false });
  } catch {
    // The client is gone, or the stream was aborted here, and the client keeps what it received.
  }
  response.end();
}
