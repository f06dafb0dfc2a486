import type { BackendUse } from "../balancer.ts";
import type { ExecuteOptions, Kernel } from "../kernel.ts";
import type { JupyterKernel } from "../protocol/kernel.ts";
import { executeInShell } from "./bash.ts";

/** A kernel on a server, or the shell in it. Its cells are reported to the balancer as use of the server. */
export function placedKernel(kernel: JupyterKernel, begin: () => BackendUse): Kernel {
  const isShell = kernel.info.language === "bash";
  async function* execute(code: string, options?: ExecuteOptions) {
    const use = begin();
    try {
      yield* isShell ? executeInShell(kernel, code, options) : kernel.execute(code, options);
      use.succeeded();
    } finally {
      use.ended();
    }
  }
  return {
    info: kernel.info,
    closed: kernel.closed,
    execute,
    settled: (signal) => kernel.settled(signal),
    interrupt: () => kernel.interrupt(),
    ...(!isShell && { inspect: (query) => kernel.inspect(query) }),
    dispose: () => kernel.dispose(),
  };
}
