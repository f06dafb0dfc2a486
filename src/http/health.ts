import type { IncomingMessage, ServerResponse } from "node:http";
import { refuse } from "./refuse.ts";

/** `GET /healthz`, for liveness checks. Reveals nothing else, so it needs no token. */
export function health(request: IncomingMessage, response: ServerResponse): void {
  if (request.method !== "GET" && request.method !== "HEAD") {
    refuse(response, 405, "Only GET is allowed here.", { headers: { allow: "GET, HEAD" } });
    return;
  }
  const body = '{"status":"ok"}';
  response.writeHead(200, {
    "content-type": "application/json",
    "content-length": body.length,
    "cache-control": "no-store",
  });
  response.end(request.method === "HEAD" ? undefined : body);
}
