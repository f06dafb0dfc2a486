import type { Log } from "../../log.ts";

/** Limit of hosts logged per session: code can try any number. */
const MAX_HOSTS = 200;

export interface HostLog {
  allowed(host: string, port: number): void;
  refused(host: string, reason: string): void;
}

/** Logs each host that a session reaches or is refused, once. */
export function logHosts(log: Log, sessionId: string): HostLog {
  const seen = new Set<string>();
  const isFirst = (key: string): boolean => {
    if (seen.has(key) || seen.size > MAX_HOSTS) return false;
    seen.add(key);
    if (seen.size <= MAX_HOSTS) return true;
    log.warn(`session ${sessionId}: more than ${MAX_HOSTS} hosts; further ones are not logged`);
    return false;
  };
  return {
    allowed(host, port) {
      if (isFirst(`allowed ${host}`)) log.info(`session ${sessionId}: network allowed: ${host}:${port}`);
    },
    refused(host, reason) {
      if (isFirst(`refused ${host}`)) log.warn(`session ${sessionId}: network refused: ${reason.slice(0, 300)}`);
    },
  };
}
