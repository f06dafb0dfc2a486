import type { JupyterMessage } from "../protocol/message.ts";
import { reportedEnd, SHELL_ENDED } from "./bash.ts";

const LOST_STATES: unknown[] = ["restarting", "autorestarting", "dead"];

export const REPLACED = "The kernel's process ended, and the Jupyter server has started another in its place.";

/** Why this kernel is gone, if the message says so. */
export function lossOf({ channel, header, parent, content }: JupyterMessage): string | undefined {
  if (channel !== "iopub") return undefined;
  if (header.msg_type === SHELL_ENDED) return reportedEnd(content.code);
  // The server's report about a dead kernel has no parent, because it answers no request.
  if (header.msg_type !== "status" || parent.msg_id !== undefined) return undefined;
  return LOST_STATES.includes(content.execution_state) ? REPLACED : undefined;
}
