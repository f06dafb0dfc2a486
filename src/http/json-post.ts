import type { IncomingMessage } from "node:http";
import { HttpError } from "./body.ts";

/**
 * Throws HttpError unless a request is a JSON POST, without an Origin or from this very server (CSRF protection). A
 * browser page can send a POST to any local port without a preflight unless its type is JSON; and pages of other
 * servers on loopback pass the host check, which ignores ports.
 */
export function checkJsonPost({ method, headers }: IncomingMessage): void {
  if (method !== "POST") throw new HttpError(405, "Only POST is allowed here.", { allow: "POST" });
  if (headers.origin !== undefined && !isOwnOrigin(headers.origin, headers.host)) {
    throw new HttpError(
      403,
      `Origin ${headers.origin.slice(0, 200)} is not allowed: pages of other servers are refused.`,
    );
  }
  const type = (headers["content-type"] ?? "").split(";", 1)[0]?.trim().toLowerCase();
  if (type !== "application/json") {
    throw new HttpError(415, "The request must be JSON: send it with `content-type: application/json`.");
  }
}

/** The page was loaded from the address of its request: same host and port. */
function isOwnOrigin(origin: string, host: string | undefined): boolean {
  if (!URL.canParse(origin) || host === undefined) return false;
  const { protocol, host: from } = new URL(origin);
  if (protocol !== "http:" && protocol !== "https:") return false;
  // Both without the default port.
  return URL.canParse(`${protocol}//${host}`) && new URL(`${protocol}//${host}`).host === from;
}
