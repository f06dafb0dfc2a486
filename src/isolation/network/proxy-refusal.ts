import type { HostLog } from "./host-log.ts";

/** Concurrent connections of one session: more than browsers open, and too few to starve other sessions. */
export const MAX_CONNECTIONS = 64;

/** Refused by the rules. */
export class Refused extends Error {
  readonly host: string;

  constructor(message: string, host = "") {
    super(message);
    this.host = host;
  }
}

export class TooManyConnections extends Error {
  override message = `this session has ${MAX_CONNECTIONS} open connections, which is the limit: close some first`;
}

/** The reason for the client, and for the log if it is about a host. */
export function describeRefusal(error: unknown, hosts?: HostLog): { status: string; message: string } {
  const detail = error instanceof Error ? error.message : String(error);
  if (error instanceof Refused) {
    hosts?.refused(error.host, detail);
    return { status: "403 Forbidden", message: `Cellwright's network rules: ${detail} (--allow-net).` };
  }
  const status = error instanceof TooManyConnections ? "503 Service Unavailable" : "502 Bad Gateway";
  return { status, message: `Cellwright's proxy: ${detail}.` };
}
