import type { ExecutionEvent } from "../../execution.ts";
import type { Kernel } from "../../kernels/kernel.ts";

/** Runs setup code, then the cell. Only a failure of the setup is visible, and the cell is skipped then. */
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
