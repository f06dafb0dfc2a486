import { constants } from "node:os";
import type { ExecutionEvent } from "../../execution.ts";
import type { ExecuteOptions, Kernel } from "../kernel.ts";
import type { JupyterKernel } from "../protocol/kernel.ts";
import { assignments, obstacleTo } from "../shell/variables.ts";

/** Message type that reports the end of the shell; see python/commands/bash_kernel.py. */
export const SHELL_ENDED = "cellwright_ended";

/** `code` as in Python: the exit code, or the signal as a negative number. */
export function shellEnd(code: unknown): string {
  if (typeof code !== "number") return "The shell ended.";
  const signal = Object.entries(constants.signals).find(([, number]) => number === -code)?.[0];
  if (signal) return `The shell was killed by ${signal}.`;
  return `The shell ended with exit code ${code}, by \`exit\` or under \`set -e\`.`;
}

/** Adapts a kernel with a shell in it: shell wording for interrupts, no `inspect`. */
export function shellKernel(kernel: JupyterKernel): Kernel {
  async function* execute(code: string, options: ExecuteOptions = {}): AsyncGenerator<ExecutionEvent, void> {
    const { variables = {} } = options;
    // Prepared here, so that the rules exist in TypeScript only: the kernel shows the refusal or sources the lines.
    const prepared = { refusal: obstacleTo(code, variables) ?? "", assignments: assignments(variables) };
    for await (const event of kernel.execute(code, { ...options, variables: prepared })) yield inShellWords(event);
  }
  return {
    info: kernel.info,
    closed: kernel.closed,
    execute,
    settled: (signal) => kernel.settled(signal),
    interrupt: () => kernel.interrupt(),
    dispose: () => kernel.dispose(),
  };
}

function inShellWords(event: ExecutionEvent): ExecutionEvent {
  if (event.type !== "error" || event.name !== "KeyboardInterrupt") return event;
  return { ...event, name: "Interrupted", message: "the cell was interrupted" };
}
