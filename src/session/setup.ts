import type { ExecutionEvent } from "../execution.ts";
import type { Kernel } from "../kernels/kernel.ts";

/** Runs code of ours, and then a cell. Of ours is seen only how it failed; the cell is not run then. */
export async function* afterSetup(
  kernel: Kernel,
  { setup, timeoutMs }: { setup: string; timeoutMs: number },
  cell: () => AsyncIterable<ExecutionEvent>,
): AsyncIterable<ExecutionEvent> {
  const shown: ExecutionEvent[] = [];
  for await (const event of kernel.execute(setup, { silent: true, timeoutMs })) shown.push(event);
  const isFailure = shown.some((event) => event.type === "done" && event.status === "error");
  yield* isFailure ? shown : cell();
}
