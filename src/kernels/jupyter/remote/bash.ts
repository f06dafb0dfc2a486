import { constants } from "node:os";
import type { ExecutionEvent } from "../../../execution.ts";
import type { ExecuteOptions, Kernel } from "../../kernel.ts";
import type { JupyterKernel } from "../kernel.ts";

/** What a kernel with a shell says when that has ended; see host/bash_kernel.py. */
export const SHELL_ENDED = "cellwright_ended";

/** As Python tells it: the exit code, or the signal as a negative number. */
export function shellEnd(code: unknown): string {
  if (typeof code !== "number") return "The shell ended.";
  const signal = Object.entries(constants.signals).find(([, number]) => number === -code)?.[0];
  if (signal) return `The shell was killed by ${signal}.`;
  return `The shell ended with exit code ${code}, by \`exit\` or under \`set -e\`.`;
}

/** A kernel with a shell in it, as a shell: an interrupt is not Python's, and there are no variables to look at. */
export function shellKernel(kernel: JupyterKernel): Kernel {
  async function* execute(code: string, options?: ExecuteOptions): AsyncGenerator<ExecutionEvent, void> {
    for await (const event of kernel.execute(code, options)) yield inShellWords(event);
  }
  return {
    info: kernel.info,
    closed: kernel.closed,
    execute,
    interrupt: () => kernel.interrupt(),
    dispose: () => kernel.dispose(),
  };
}

function inShellWords(event: ExecutionEvent): ExecutionEvent {
  if (event.type !== "error" || event.name !== "KeyboardInterrupt") return event;
  return { ...event, name: "Interrupted", message: "the cell was interrupted" };
}
