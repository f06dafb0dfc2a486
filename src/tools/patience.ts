/** How long a call waits for its cell when it does not say: less than any client's own limit that we know of (60 s). */
const DEFAULT_MS = 45_000;
/** Between our reply and the client's limit, for the reply to get there. */
const MARGIN_MS = 2_000;
/** However impatient the client says it is: with less, every cell would come back as running. */
const FLOOR_MS = 10_000;
/** What a timer can hold. */
const MAX_MS = 2 ** 31 - 1;

/**
 * How long a call may wait. MCP_TOOL_TIMEOUT, which Claude Code and others give to their servers too, is the client's
 * own limit in milliseconds.
 */
export function patienceMs(waitSeconds: number | undefined, env: NodeJS.ProcessEnv = process.env): number {
  const wanted = waitSeconds === undefined ? DEFAULT_MS : waitSeconds * 1000;
  return Math.min(wanted, clientLimitMs(env.MCP_TOOL_TIMEOUT));
}

function clientLimitMs(value: string | undefined): number {
  if (!value || !/^\d+$/.test(value) || Number(value) === 0) return MAX_MS;
  return Math.min(Math.max(Number(value) - MARGIN_MS, FLOOR_MS), MAX_MS);
}
