import type { ExecuteOptions, Kernel } from "../../kernel.ts";
import type { BackendUse } from "../../pool/balancer.ts";

/** A kernel whose cells count as use of its server. */
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
  const { interrupt, inspect } = kernel;
  return {
    info: kernel.info,
    closed: kernel.closed,
    execute,
    ...(interrupt && { interrupt: () => interrupt.call(kernel) }),
    ...(inspect && { inspect: (query) => inspect.call(kernel, query) }),
    dispose: () => kernel.dispose(),
  };
}
