import { randomUUID } from "node:crypto";
import { heard, type JupyterChannel } from "./channel.ts";
import { createMessage } from "./message.ts";

/** Retry interval without a reply, and the shorter one with a reply but no idle status. */
const RETRY_MS = 250;
const RETRY_HALF_ANSWERED_MS = 20;

/** Resolves when the kernel's replies and its output arrive. Throws when `signal` aborts or the channel closes. */
export async function ready(channel: JupyterChannel, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const session = randomUUID();
  const questions = new Set<string>();
  let timer: NodeJS.Timeout | undefined;
  const ask = (): void => {
    const question = createMessage("shell", "kernel_info_request", {}, { session });
    questions.add(question.header.msg_id);
    void channel.send(question);
    timer = setTimeout(ask, RETRY_MS);
  };
  let answered = false;
  let subscribed = false;
  const both = heard(channel, signal, ({ header, parent, content }) => {
    if (!questions.has(parent.msg_id ?? "")) return undefined;
    if (header.msg_type === "kernel_info_reply") {
      answered = true;
      clearTimeout(timer);
      timer = setTimeout(ask, RETRY_HALF_ANSWERED_MS);
    } else if (content.execution_state === "idle") subscribed = true;
    // The reply alone does not prove that iopub is subscribed: the first outputs could be lost.
    return (answered && subscribed) || undefined;
  });
  try {
    ask();
    await both;
  } finally {
    questions.clear();
    clearTimeout(timer);
  }
}
