import { randomUUID } from "node:crypto";
import { CellwrightError } from "../../errors.ts";
import type { JupyterChannel } from "./channel.ts";
import { createMessage } from "./message.ts";

/** A question that was lost is asked again after this; one whose answer came alone, after the shorter time. */
const RETRY_MS = 250;
const RETRY_HALF_ANSWERED_MS = 20;

/** Resolves when the kernel answers and what it shows reaches us. Throws when `signal` aborts or the channel closes. */
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
  const reader = channel.messages()[Symbol.asyncIterator]();
  const stop = (): void => void reader.return?.();
  signal.addEventListener("abort", stop);
  let answered = false;
  let subscribed = false;
  try {
    ask();
    // The reply alone does not prove that we hear what is shown, and the first outputs would be lost.
    while (!(answered && subscribed)) {
      const { done, value: message } = await reader.next();
      signal.throwIfAborted();
      if (done) throw new CellwrightError("kernel_start_failed", (await channel.closed).reason);
      if (!questions.has(message.parent.msg_id ?? "")) continue;
      if (message.header.msg_type === "kernel_info_reply") {
        answered = true;
        clearTimeout(timer);
        timer = setTimeout(ask, RETRY_HALF_ANSWERED_MS);
      } else if (message.content.execution_state === "idle") subscribed = true;
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    stop();
  }
}
