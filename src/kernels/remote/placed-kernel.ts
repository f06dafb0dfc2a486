import type { BackendUse } from "../balancer.ts";
import type { ExecuteOptions, Kernel } from "../kernel.ts";

/** Reports a kernel's cells to the balancer as use of its server. */
export function placedKernel(kernel: Kernel, begin: () => BackendUse): Kernel {
  async function* execute(code: string, options?: ExecuteOptions) {
    const use = begin();
    try {
      yield* kernel.execute(code, options);
      use.succeeded();
    } finally {
      use.ended();
    }
  }
  const { settled, interrupt, inspect } = kernel;
  return {
    info: kernel.info,
    closed: kernel.closed,
    execute,
    ...(settled && { settled: (signal) => settled.call(kernel, signal) }),
    ...(interrupt && { interrupt: () => interrupt.call(kernel) }),
    ...(inspect && { inspect: (query) => inspect.call(kernel, query) }),
    dispose: () => kernel.dispose(),
  };
}
