import type { HostLog } from "./host-log.ts";

/** Connections of one session at once: more than browsers open, less than would be missed by others. */
export const MAX_CONNECTIONS = 64;

/** What the rules say. */
export class Refused extends Error {
  readonly host: string;

  constructor(message: string, host = "") {
    super(message);
    this.host = host;
  }
}

export class Crowded extends Error {
  override message = `${MAX_CONNECTIONS} connections of this session are open, which is the most: close some first`;
}

/** What the client is told, and the log if it is about a host. */
export function describeRefusal(error: unknown, hosts?: HostLog): { status: string; message: string } {
  const detail = error instanceof Error ? error.message : String(error);
  if (error instanceof Refused) {
    hosts?.refused(error.host, detail);
    return { status: "403 Forbidden", message: `Cellwright's network rules: ${detail} (--allow-net).` };
  }
  const status = error instanceof Crowded ? "503 Service Unavailable" : "502 Bad Gateway";
  return { status, message: `Cellwright's proxy: ${detail}.` };
}
