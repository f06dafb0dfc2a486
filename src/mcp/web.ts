import type { IncomingMessage, ServerResponse } from "node:http";

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
  const reader = web.body.getReader();
  const gone = () => void reader.cancel().catch(() => {});
  response.once("close", gone);
  if (response.destroyed) gone();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (!response.write(value)) await drained(response);
    }
  } catch {
    // The stream was aborted on the server side; the client keeps what it received.
  }
  response.off("close", gone);
  response.end();
}

function drained(response: ServerResponse): Promise<void> {
  if (response.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.on("drain", done);
    response.on("close", done);
  });
}
