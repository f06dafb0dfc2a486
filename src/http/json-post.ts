import type { IncomingMessage } from "node:http";
import { HttpError } from "./body.ts";

/**
 * Throws HttpError unless a request is a POST of JSON, from no page or from one of this very server. A page in a browser
 * can send a POST to any port of its user's machine without asking first, as long as its type is not JSON; and pages of
 * other servers on loopback pass the check of names, which does not look at ports.
 */
export function checkJsonPost({ method, headers }: IncomingMessage): void {
  if (method !== "POST") throw new HttpError(405, "Only POST is allowed here.", { allow: "POST" });
  if (headers.origin !== undefined && !isOwnOrigin(headers.origin, headers.host)) {
    throw new HttpError(403, `Origin ${headers.origin.slice(0, 200)} is not allowed: pages of other servers may not.`);
  }
  const type = (headers["content-type"] ?? "").split(";", 1)[0]?.trim().toLowerCase();
  if (type !== "application/json") {
    throw new HttpError(415, "The request must be JSON: send it with `content-type: application/json`.");
  }
}

/** The page was loaded from where its request goes: the same name and port. */
function isOwnOrigin(origin: string, host: string | undefined): boolean {
  if (!URL.canParse(origin) || host === undefined) return false;
  const { protocol, host: from } = new URL(origin);
  if (protocol !== "http:" && protocol !== "https:") return false;
  // Without the port that goes without saying, as in `from`.
  return URL.canParse(`${protocol}//${host}`) && new URL(`${protocol}//${host}`).host === from;
}
