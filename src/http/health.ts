import type { IncomingMessage, ServerResponse } from "node:http";
import { answerJson } from "./answer.ts";
import { refuse } from "./refuse.ts";

/** `GET /healthz`, for liveness checks. Reveals nothing else, so it needs no token. */
export function health(request: IncomingMessage, response: ServerResponse): void {
  if (request.method !== "GET" && request.method !== "HEAD") {
    refuse(response, 405, "Only GET is allowed here.", { headers: { allow: "GET, HEAD" } });
    return;
  }
  // Node leaves out the body of an answer to HEAD.
  answerJson(response, 200, { status: "ok" });
}
