import type { IncomingMessage, ServerResponse } from "node:http";

/** The SDK speaks the web's Request and Response. The body is not in it: we have read and parsed it already. */
export function toWebRequest(request: IncomingMessage, signal?: AbortSignal): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    for (const one of [value ?? []].flat()) headers.append(name, one);
  }
  // The path only: nothing behind this reads the rest, and a Host can be anything.
  return new Request("http://localhost/mcp", { method: request.method, headers, signal });
}

/** Sends a response as it comes, no faster than the client reads. Ends early, without an error, when the client leaves. */
export async function writeWebResponse(web: Response, response: ServerResponse): Promise<void> {
  response.writeHead(web.status, Object.fromEntries(web.headers));
  if (!web.body) return void response.end();
  // A stream's first event may be long in coming; the client should know before that it was accepted.
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
    // The stream was cut short on our side; what the client has is all there is.
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
