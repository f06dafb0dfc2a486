import type { ChildProcess } from "node:child_process";

/** A background process may hold the pipes open; the child's own output has arrived after this time. */
const LAST_OUTPUT_MS = 500;

/** How a child ended, as a phrase (`exit 0`, `ended by SIGKILL`), or why it did not start. Its output has arrived. */
export function exitOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => {
      const exit = signal ? `ended by ${signal}` : `exit ${code}`;
      // The timer may be late; pending data in the pipes is read before an immediate runs.
      const silence = setTimeout(() => setImmediate(() => resolve(exit)), LAST_OUTPUT_MS);
      child.once("close", () => {
        clearTimeout(silence);
        resolve(exit);
      });
    });
  });
}

/** The last line that is not blank; empty without any. */
export function lastLine(text: string): string {
  return text.trim().split("\n").at(-1)?.trim() ?? "";
}
