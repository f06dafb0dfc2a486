import type { ChildProcess } from "node:child_process";

/** A process left behind may hold the output open; what the child itself said has arrived by then. */
const LAST_OUTPUT_MS = 500;

/** How a child ended, as a phrase (`exit 0`, `ended by SIGKILL`), or why it did not start. Its output has arrived. */
export function exitOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => {
      const exit = signal ? `ended by ${signal}` : `exit ${code}`;
      // However late the timer is: what waits in the pipes is read before an immediate runs.
      const silence = setTimeout(() => setImmediate(() => resolve(exit)), LAST_OUTPUT_MS);
      child.once("close", () => {
        clearTimeout(silence);
        resolve(exit);
      });
    });
  });
}

/** The last line that says something; empty when none does. */
export function lastLine(text: string): string {
  return text.trim().split("\n").at(-1)?.trim() ?? "";
}
