import type { ReadResourceResult, Resource } from "@modelcontextprotocol/server";
import type { Backends } from "../kernels/kernel.ts";

export const STATUS_URI = "balancer://status";

const MIME_TYPE = "application/json";

/** The state of the servers that sessions are balanced over. */
export const statusResource: Resource = {
  uri: STATUS_URI,
  name: "balancer status",
  title: "Status of the backends",
  description: "The backends that sessions are balanced over: state, running sessions, failures, last use.",
  mimeType: MIME_TYPE,
};

export function readStatus(backends: Backends): ReadResourceResult {
  const text = JSON.stringify(backends.status(), null, 2);
  return { contents: [{ uri: STATUS_URI, mimeType: MIME_TYPE, text }] };
}
