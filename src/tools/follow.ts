import { showDuration } from "../mcp/render/amounts.ts";
import { plainText } from "../mcp/render/terminal.ts";
import type { ToolContext } from "../mcp/tool.ts";
import type { Run } from "../session/run.ts";

/** How often a waiting client hears that its cell is alive. */
const PROGRESS_MS = 2_000;

/**
 * Waits for a cell, telling the client how it goes and what it prints. True when the cell is over; false when patience
 * ends first, or when the `until` signal says so. Rejects if the cell could not be run at all.
 */
export async function follow(
  run: Run,
  context: Pick<ToolContext, "progress" | "printed">,
  { patienceMs, until }: { patienceMs: number; until?: AbortSignal },
): Promise<boolean> {
  const stopPrinting = passOnPrinted(run, context);
  const ticker = setInterval(() => context.progress(progressOf(run)), PROGRESS_MS);
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
    clearInterval(ticker);
    until?.removeEventListener("abort", giveUp);
    stopPrinting();
  }
}

export function progressOf(run: Run): string {
  const elapsed = showDuration(run.elapsedMs);
  if (run.phase === "queued") return `${elapsed} · waiting for its turn behind another cell`;
  if (run.phase === "starting") return `${elapsed} · ${run.startMessage || "starting the kernel"}`;
  return `${elapsed} · ${plainText(run.lastLine) || "running"}`;
}

function passOnPrinted(run: Run, { printed }: Pick<ToolContext, "printed">): () => void {
  const events = run.events()[Symbol.asyncIterator]();
  let stopped = false;
  void (async () => {
    for (let next = await events.next(); !next.done && !stopped; next = await events.next()) {
      if (next.value.type === "stream") printed(next.value.name, next.value.text.toWellFormed());
    }
  })();
  return () => {
    stopped = true;
    void events.return?.();
  };
}
