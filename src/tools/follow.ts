import type { Run } from "../engine/run/run.ts";
import { MAX_TIMER_MS } from "../options/types.ts";
import { showDuration } from "../render/text/amounts.ts";
import { plainText } from "../render/text/terminal.ts";
import type { ToolContext } from "./tool.ts";

/** Default time that a call waits for its cell: less than the shortest known timeout of a client (60 s). */
const DEFAULT_MS = 45_000;
/** Time for the reply to arrive before the client's timeout. */
const MARGIN_MS = 2_000;
/** Lower bound, whatever the client's timeout: with less, every cell would be returned as running. */
const FLOOR_MS = 10_000;

/**
 * Waits for a cell while reporting progress and output to the client. True when the cell ended; false when `patienceMs`
 * passed or `until` was aborted first. Rejects if the cell could not be run at all.
 */
export async function follow(
  run: Run,
  context: Pick<ToolContext, "progress" | "printed">,
  { patienceMs = MAX_TIMER_MS, until }: { patienceMs?: number; until?: AbortSignal } = {},
): Promise<boolean> {
  const stopPrinting = context.printed && passOnPrinted(run, context.printed);
  context.progress(() => progressOf(run));
  let giveUp = () => {};
  const gaveUp = new Promise<false>((resolve) => {
    giveUp = () => resolve(false);
  });
  const timer = setTimeout(giveUp, patienceMs);
  until?.addEventListener("abort", giveUp, { once: true });
  if (until?.aborted) giveUp();
  try {
    return await Promise.race([run.finished.then(() => true), gaveUp]);
  } finally {
    clearTimeout(timer);
    until?.removeEventListener("abort", giveUp);
    stopPrinting?.();
  }
}

function progressOf(run: Run): string {
  const elapsed = showDuration(run.elapsedMs);
  if (run.phase === "queued") return `${elapsed} · queued behind another cell`;
  if (run.phase === "starting") return `${elapsed} · ${run.startMessage || "starting the kernel"}`;
  return `${elapsed} · ${plainText(run.lastLine) || "running"}`;
}

function passOnPrinted(run: Run, printed: NonNullable<ToolContext["printed"]>): () => void {
  return run.listen((event) => {
    if (event.type === "stream") printed(event.name, event.text.toWellFormed());
  });
}

/**
 * How long a call may wait. MCP_TOOL_TIMEOUT, which Claude Code and others pass to their servers, is the client's
 * timeout in milliseconds.
 */
export function patienceMs(waitSeconds: number | undefined, env: NodeJS.ProcessEnv = process.env): number {
  const wanted = waitSeconds === undefined ? DEFAULT_MS : waitSeconds * 1000;
  return Math.min(wanted, clientLimitMs(env.MCP_TOOL_TIMEOUT));
}

function clientLimitMs(value: string | undefined): number {
  if (!value || !/^\d+$/.test(value) || Number(value) === 0) return MAX_TIMER_MS;
  return Math.min(Math.max(Number(value) - MARGIN_MS, FLOOR_MS), MAX_TIMER_MS);
}
