import type { ExecutionEvent } from "../../execution.ts";
import { signalName } from "../../process/signal-name.ts";
import type { ExecuteOptions, Kernel } from "../kernel.ts";
import { shellEnd } from "../shell/ending.ts";
import { assignments, obstacleTo } from "../shell/variables.ts";

/** Message type that reports the end of the shell; see python/commands/bash_kernel.py. */
export const SHELL_ENDED = "cellwright_ended";

/** `code` as in Python: the exit code, or the signal as a negative number. */
export function reportedEnd(code: unknown): string {
  return typeof code === "number" ? shellEnd({ code, signal: signalName(-code) }) : "The shell ended.";
}

/** Runs a cell in a kernel with a shell in it: values and interrupts are those of a shell. */
export async function* executeInShell(
  kernel: Kernel,
  code: string,
  options: ExecuteOptions = {},
): AsyncGenerator<ExecutionEvent, void> {
  const { variables = {} } = options;
  // Prepared here, so that the rules exist in TypeScript only: the kernel shows the refusal or sources the lines.
  const prepared = { refusal: obstacleTo(code, variables) ?? "", assignments: assignments(variables) };
  for await (const event of kernel.execute(code, { ...options, variables: prepared })) yield inShellWords(event);
}

function inShellWords(event: ExecutionEvent): ExecutionEvent {
  if (event.type !== "error" || event.name !== "KeyboardInterrupt") return event;
  return { ...event, name: "Interrupted", message: "the cell was interrupted" };
}
